"""From the operator's keys to limits and TLS."""

from __future__ import annotations

from pathlib import Path

from skyrocketmq.config import ClientAuth, ClientConfig, ServerConfig, TlsConfig, TlsMode, load_namesrv_config
from skyrocketmq.net.configured import client_options, client_tls, server_options, server_tls
from skyrocketmq.net.options import ServerOptions


def test_a_water_mark_of_zero_keeps_the_built_in_one() -> None:
    options = server_options(ServerConfig())
    assert options.write_high_bytes == ServerOptions().write_high_bytes
    assert options.idle_s == 120


def test_a_high_mark_below_the_low_one_moves_both() -> None:
    options = server_options(ServerConfig(write_high_water_bytes=1000))
    assert (options.write_low_bytes, options.write_high_bytes) == (1000, 1000)


def test_client_keys_become_limits() -> None:
    options = client_options(ClientConfig(connect_timeout_ms=1500, close_on_timeout=False, idle_timeout_s=0))
    assert (options.connect_timeout_s, options.close_if_timeout, options.idle_s) == (1.5, False, 0)


def test_test_mode_reads_no_files_and_trusts_everyone() -> None:
    config = TlsConfig(server_cert_path=Path("/nowhere"), client_auth_server=True)
    assert server_tls(config).certificate_path is None
    assert not client_tls(config).verify


def test_checking_clients_without_a_word_on_need_asks_for_a_certificate_but_does_not_demand_one() -> None:
    config = TlsConfig(test_mode=False, server_auth_client=True, server_trust_cert_path=Path("ca.pem"))
    assert server_tls(config).client_auth is ClientAuth.OPTIONAL
    assert server_tls(TlsConfig(test_mode=False)).client_auth is ClientAuth.NONE


def test_an_unknown_mode_in_a_file_is_permissive_as_at_apache(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("tls.server.mode=nonsense\n")
    loaded = load_namesrv_config(file, environ={})
    assert server_tls(loaded.config.tls).mode is TlsMode.PERMISSIVE
    assert any("tls.server.mode" in warning for warning in loaded.warnings)
