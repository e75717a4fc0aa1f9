"""From the operator's keys to limits and TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_test_mode_alone_reads_no_files_and_trusts_everyone() -> None:
    assert server_tls(TlsConfig()).certificate_path is None
    assert not client_tls(TlsConfig()).verify


@pytest.mark.parametrize("test_mode", [True, False])
def test_what_the_keys_say_is_checked_in_test_mode_too(test_mode: bool) -> None:
    """The keys that docs/security.md lists, with and without the one that is on by default."""
    config = TlsConfig(
        test_mode=test_mode,
        server_cert_path=Path("server.pem"),
        server_need_client_auth=ClientAuth.REQUIRE,
        server_trust_cert_path=Path("ca.pem"),
        client_auth_server=True,
        client_trust_cert_path=Path("ca.pem"),
        client_cert_path=Path("client.pem"),
    )
    server, client = server_tls(config), client_tls(config)
    assert (server.certificate_path, server.client_auth) == (Path("server.pem"), ClientAuth.REQUIRE)
    assert server.trust_path == client.trust_path == Path("ca.pem")
    assert (client.verify, client.check_hostname, client.certificate_path) == (True, True, Path("client.pem"))
    unnamed = client_tls(TlsConfig(client_auth_server=True, client_check_hostname=False))
    assert (unnamed.verify, unnamed.check_hostname) == (True, False)


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


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(256, 128), (1024, 512), (4096, 3072), (65_536, 50_000), (10**9, 50_000), (1, 1)]
)
def test_some_descriptors_are_left_for_files(descriptors: int, connections: int) -> None:
    assert server_options(ServerConfig(), descriptors=descriptors).connections_max == connections
