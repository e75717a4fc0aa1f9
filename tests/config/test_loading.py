"""Files, environment and command line become one configuration; mistakes are told where they stand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skyrocketmq.config import (
    BrokerRole,
    ClientAuth,
    FlushDiskType,
    Source,
    TlsMode,
    load_broker_config,
    load_namesrv_config,
    split_assignments,
)
from skyrocketmq.errors import ConfigError
from tests.config import apache_keys

MINIMAL = """
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "broker.conf"


def test_apaches_minimal_file_starts_without_a_warning(conf: Path) -> None:
    conf.write_text(MINIMAL)
    loaded = load_broker_config(conf, {})
    assert loaded.warnings == ()
    assert loaded.config.broker_name == "broker-a"
    assert loaded.config.store.file_reserved_hours == 48
    assert loaded.config.store.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert loaded.sources["fileReservedTime"] is Source.FILE
    assert loaded.store_path == conf


def test_a_file_with_all_of_apaches_keys_starts_without_a_warning(conf: Path) -> None:
    """Such a file is what Apache's broker leaves after a change at run time."""
    keys = apache_keys.BROKER | apache_keys.STORE | apache_keys.SERVER | apache_keys.CLIENT | {"listenPort": "10911"}
    samples = {"brokerName": "a", "brokerIP1": "10.0.0.1", "brokerIP2": "10.0.0.1", "storePathRootDir": "/data"}
    texts = {name: samples.get(name, "5") if text == apache_keys.MACHINE else text for name, text in keys.items()}
    conf.write_text("".join(f"{name}={text}\n" for name, text in texts.items() if text is not None))
    loaded = load_broker_config(conf, {})
    assert loaded.warnings == ()
    assert loaded.unknown == {}
    assert loaded.config.broker_ip == "10.0.0.1"


def test_a_slave_and_its_keys_are_read_from_a_file(conf: Path) -> None:
    conf.write_text(
        "brokerName=broker-a\nbrokerId=1\nbrokerRole=SLAVE\nnamesrvAddr=ns1:9876;ns2:9876\nlistenPort=11011"
    )
    config = load_broker_config(conf, {}).config
    assert (config.broker_id, config.store.broker_role) == (1, BrokerRole.SLAVE)
    assert config.namesrv_addresses == ("ns1:9876", "ns2:9876")
    assert (config.server.listen_port, config.store.ha_listen_port) == (11011, 11012)


def test_later_sources_win(conf: Path) -> None:
    conf.write_text("listenPort=1001\nbrokerName=from-file\nregionId=from-file")
    environ = {"SKYROCKETMQ_LISTEN_PORT": "1002", "SKYROCKETMQ_BROKER_NAME": "from-environment"}
    loaded = load_broker_config(conf, environ, {"listenPort": "1003"})
    assert loaded.config.server.listen_port == 1003
    assert loaded.config.broker_name == "from-environment"
    assert loaded.config.region_id == "from-file"
    assert loaded.sources["listenPort"] is Source.COMMAND_LINE
    assert loaded.sources["brokerName"] is Source.ENVIRONMENT
    assert loaded.sources["regionId"] is Source.FILE


def test_apaches_own_variables_are_defaults_that_a_file_overrides(conf: Path) -> None:
    environ = {"NAMESRV_ADDR": "from-environment:9876", "ROCKETMQ_HOME": "/opt/rocketmq"}
    assert load_broker_config(None, environ).config.namesrv_addresses == ("from-environment:9876",)
    assert load_broker_config(None, environ).config.rocketmq_home == Path("/opt/rocketmq")
    conf.write_text("namesrvAddr=from-file:9876")
    assert load_broker_config(conf, environ).config.namesrv_addresses == ("from-file:9876",)


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SKYROCKETMQ_LISTEN_PORT", "4321")
    assert load_namesrv_config().config.server.listen_port == 4321


def test_an_unknown_key_in_a_file_is_a_warning_with_a_suggestion_and_is_kept(conf: Path) -> None:
    conf.write_text("# comment\nbrokerNmae = broker-a\nsomethingElse=1")
    loaded = load_broker_config(conf, {})
    assert loaded.warnings == (
        f'{conf} line 2: unknown key "brokerNmae" has no effect; did you mean "brokerName"?',
        f'{conf} line 3: unknown key "somethingElse" has no effect',
    )
    assert loaded.unknown == {"brokerNmae": "broker-a", "somethingElse": "1"}


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("listenport", '; did you mean "listenPort"?'),
        ("flushDiskTyp", '; did you mean "flushDiskType"?'),
        ("tls.server.mod", '; did you mean "tls.server.mode"?'),
        ("zzz", ""),
    ],
)
def test_an_unknown_key_after_set_is_an_error_with_a_suggestion(key: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_broker_config(None, {}, {key: "1"})
    assert str(caught.value) == f'--set: unknown key "{key}"{hint}'


def test_an_unknown_variable_is_a_warning_unless_another_part_knows_it() -> None:
    environ = {
        "SKYROCKETMQ_LISTEN_PROT": "1",
        "SKYROCKETMQ_BROKER_NAME": "a",
        "SKYROCKETMQ_PLAIN": "1",
        "SKYROCKETMQ_COMPILE": "require",
        "PATH": "/bin",
    }
    loaded = load_namesrv_config(None, environ)
    assert loaded.warnings == (
        'environment: unknown variable SKYROCKETMQ_LISTEN_PROT has no effect; did you mean "SKYROCKETMQ_LISTEN_PORT"?',
    )


def test_a_value_in_a_file_that_cannot_be_read_is_a_warning_and_the_default_stays(conf: Path) -> None:
    conf.write_text("listenPort = 10911x\nflushDiskType=SYNC\nhaMasterAddress=\nwriteBufferLowWaterMark=?")
    loaded = load_broker_config(conf, {})
    assert loaded.warnings == (
        f'{conf} line 1: listenPort = "10911x" is not a whole number; 10911 stays',
        f'{conf} line 2: flushDiskType = "SYNC" is not one of ASYNC_FLUSH, SYNC_FLUSH; ASYNC_FLUSH stays',
        f'{conf} line 4: writeBufferLowWaterMark = "?" is not a whole number; 0 stays',
    )
    assert loaded.config.server.listen_port == 10911
    assert "listenPort" not in loaded.sources


def test_the_last_good_value_of_a_repeated_key_stays(conf: Path) -> None:
    conf.write_text("listenPort=1001\nlistenPort=x")
    loaded = load_broker_config(conf, {})
    assert loaded.config.server.listen_port == 1001
    assert loaded.warnings == (f'{conf} line 2: listenPort = "x" is not a whole number; 1001 stays',)


def test_a_word_for_a_switch_in_a_file_is_read_as_apache_reads_it(conf: Path) -> None:
    conf.write_text("autoCreateTopicEnable = yes")
    loaded = load_broker_config(conf, {})
    assert loaded.config.auto_create_topic is False
    assert loaded.warnings == (
        f'{conf} line 1: autoCreateTopicEnable = "yes" is not true or false; it is read as false, as Apache does',
    )


def test_a_bad_value_in_the_environment_or_after_set_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match='environment SKYROCKETMQ_LISTEN_PORT: listenPort = "x" is not a whole number'
    ):
        load_broker_config(None, {"SKYROCKETMQ_LISTEN_PORT": "x"})
    with pytest.raises(ConfigError, match=r'environment TLS_SERVER_MODE: tls\.server\.mode = "enforced" is not one of'):
        load_broker_config(None, {"TLS_SERVER_MODE": "enforced"})
    with pytest.raises(ConfigError, match='--set: traceOn = "yes" is not true or false'):
        load_broker_config(None, {}, {"traceOn": "yes"})


def test_values_out_of_range_are_moved_and_told(conf: Path) -> None:
    conf.write_text("registerNameServerPeriod=1\ndiskMaxUsedSpaceRatio=99\nmappedFileSizeConsumeQueue=101")
    loaded = load_broker_config(conf, {})
    assert loaded.warnings == (
        "registerNameServerPeriod = 1 cannot be used as it is: 10000 is used instead",
        "diskMaxUsedSpaceRatio = 99 cannot be used as it is: 95 is used instead",
        "mappedFileSizeConsumeQueue = 101 cannot be used as it is: 120 is used instead",
    )


def test_a_master_has_id_zero_whatever_it_is_told() -> None:
    loaded = load_broker_config(None, {}, {"brokerId": "3"})
    assert loaded.config.broker_id == 0
    assert "brokerId = 3 is ignored" in loaded.warnings[0]


@pytest.mark.parametrize("broker_id", ["0", "-1"])
def test_a_slave_needs_an_id(broker_id: str) -> None:
    with pytest.raises(ConfigError, match="the id of a SLAVE must be greater than 0"):
        load_broker_config(None, {}, {"brokerRole": "SLAVE", "brokerId": broker_id})


@pytest.mark.parametrize(
    "addresses", ["localhost", "localhost:", ":9876", "a:1;b", "a:0", "a:65536", "a:9876,b:9876", "a b:1"]
)
def test_a_list_of_name_servers_that_cannot_be_used_is_an_error(addresses: str) -> None:
    with pytest.raises(ConfigError, match=r"namesrvAddr: .* is no address; write host:port"):
        load_broker_config(None, {}, {"namesrvAddr": addresses})


def test_an_address_may_be_of_ipv6() -> None:
    assert load_broker_config(None, {}, {"namesrvAddr": "[::1]:9876"}).config.namesrv_addresses == ("[::1]:9876",)


def test_the_ports_of_a_broker_come_in_threes(conf: Path) -> None:
    conf.write_text("listenPort=20911\nhaListenPort=1234")
    assert load_broker_config(conf, {}).config.store.ha_listen_port == 20912
    assert load_broker_config(None, {}, {"listenPort": "0"}).config.store.ha_listen_port == 0
    for port in ("1", "2", "65535"):
        with pytest.raises(ConfigError, match=f"listenPort = {port}"):
            load_broker_config(None, {}, {"listenPort": port})


def test_dledger_is_refused_rather_than_left_out() -> None:
    with pytest.raises(ConfigError, match="DLedger is not supported"):
        load_broker_config(None, {}, {"enableDLegerCommitLog": "true"})


def test_delay_levels_that_cannot_be_read_are_an_error(conf: Path) -> None:
    conf.write_text("messageDelayLevel=1s 2y")
    with pytest.raises(ConfigError, match='"2y" is no delay'):
        load_broker_config(conf, {})


def test_a_file_that_is_missing_or_broken_is_an_error(conf: Path) -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf cannot be read: No such file"):
        load_broker_config(conf, {})
    conf.write_text("a=1\npath=C:\\users")
    with pytest.raises(ConfigError, match=r"broker\.conf line 2: \\u wants four"):
        load_broker_config(conf, {})


def test_a_name_server_keeps_its_changes_in_the_file_it_was_started_with(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=9999\nconfigStorePath=/elsewhere\norderMessageEnable=true")
    loaded = load_namesrv_config(file, {})
    assert loaded.config.config_store_path == loaded.store_path == file
    assert loaded.config.order_message_enable
    assert load_namesrv_config(None, {}, {"configStorePath": "/x"}).store_path == Path("/x")


def test_a_broker_without_a_file_keeps_its_changes_in_its_store() -> None:
    loaded = load_broker_config(None, {}, {"storePathRootDir": "/data"})
    assert loaded.store_path == Path("/data/config/broker.properties")


class TestTls:
    @pytest.mark.parametrize(
        ("keys", "told"),
        [
            ({"tls.server.need.client.auth": "require"}, "serves others too"),
            ({"tls.server.need.client.auth": "require", "tls.server.mode": "enforcing"}, ""),
            ({"tls.client.trustCertPath": "/ca.pem"}, "no effect while tls.client.authServer is false"),
            ({"tls.client.trustCertPath": "/ca.pem", "tls.client.authServer": "true"}, ""),
            (
                {"tls.test.mode.enable": "true", "tls.client.authServer": "true"},
                "tls.test.mode.enable = true is ignored",
            ),
            (
                {"tls.test.mode.enable": "true", "tls.server.certPath": "/s.pem"},
                "tls.test.mode.enable = true is ignored",
            ),
            ({"tls.test.mode.enable": "true"}, ""),
        ],
    )
    def test_what_is_not_checked_as_one_might_think_is_told(self, keys: dict[str, str], told: str) -> None:
        for warnings in (load_namesrv_config(None, {}, keys).warnings, load_broker_config(None, {}, keys).warnings):
            assert len(warnings) == bool(told)
            assert told in "".join(warnings)

    @pytest.mark.parametrize("side", ["server", "client"])
    def test_a_key_without_its_certificate_is_a_mistake(self, side: str) -> None:
        with pytest.raises(ConfigError, match="needs its certificate"):
            load_namesrv_config(None, {}, {f"tls.{side}.keyPath": "/key.pem"})

    def test_apaches_tls_file_is_read_as_it_is(self, tmp_path: Path) -> None:
        file = tmp_path / "tls.properties"
        file.write_text(
            "tls.test.mode.enable=false\ntls.server.need.client.auth=require\n"
            "tls.server.keyPath=/opt/certs/server.key\ntls.server.keyPassword=123456\n"
            "tls.server.certPath=/opt/certs/server.pem\ntls.server.authClient=false\n"
            "tls.server.trustCertPath=/opt/certs/ca.pem\ntls.server.mode=enforcing\n"
        )
        loaded = load_namesrv_config(None, {"TLS_CONFIG_FILE": str(file)})
        tls = loaded.config.tls
        assert loaded.warnings == ()
        assert (tls.test_mode, tls.server_need_client_auth) == (False, ClientAuth.REQUIRE)
        assert (tls.server_key_path, tls.server_key_password) == (Path("/opt/certs/server.key"), "123456")
        assert loaded.sources["tls.server.keyPath"] is Source.TLS_FILE

    def test_every_other_source_wins_over_the_tls_file(self, tmp_path: Path) -> None:
        file, conf = tmp_path / "tls.properties", tmp_path / "namesrv.conf"
        file.write_text("tls.server.keyPath=/a\ntls.server.certPath=/a\ntls.server.trustCertPath=/a")
        conf.write_text(f"tls.config.file={file}\ntls.server.certPath=/b\ntls.server.trustCertPath=/b")
        tls = load_namesrv_config(conf, {"TLS_SERVER_TRUST_CERT_PATH": "/c"}).config.tls
        paths = (tls.server_key_path, tls.server_cert_path, tls.server_trust_cert_path)
        assert paths == (Path("/a"), Path("/b"), Path("/c"))

    def test_a_tls_file_that_was_asked_for_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"missing\.properties cannot be read"):
            load_namesrv_config(None, {}, {"tls.config.file": str(tmp_path / "missing.properties")})

    def test_both_spellings_of_a_variable_are_understood(self) -> None:
        assert load_namesrv_config(None, {"TLS_SERVER_MODE": "enforcing"}).config.tls.server_mode is TlsMode.ENFORCING
        prefixed = load_namesrv_config(None, {"SKYROCKETMQ_TLS_SERVER_MODE": "disabled"})
        assert prefixed.config.tls.server_mode is TlsMode.DISABLED

    @pytest.mark.parametrize(
        ("settings", "uses_tls"),
        [
            ({}, False),
            ({"tls.enable": "true"}, True),
            ({"tls.server.mode": "enforcing"}, True),
            ({"tls.server.mode": "enforcing", "tls.enable": "false"}, False),
            ({"tls.server.mode": "enforcing", "useTLS": "false"}, False),
            ({"useTLS": "true"}, True),
        ],
    )
    def test_a_broker_speaks_tls_to_others_when_it_is_told_to_or_enforces_it(
        self, settings: dict[str, str], uses_tls: bool
    ) -> None:
        assert load_broker_config(None, {}, settings).config.client.use_tls is uses_tls

    def test_a_bad_value_does_not_show_a_secret(self, tmp_path: Path) -> None:
        file = tmp_path / "namesrv.conf"
        file.write_text("tls.server.keyPassword=hunter2\nlistenPort=x")
        assert "hunter2" not in repr(load_namesrv_config(file, {}))


def test_assignments_of_the_command_line_are_split_at_the_first_equals_sign() -> None:
    assert split_assignments(["a=1", "b = x=y", "c="]) == {"a": "1", "b": " x=y", "c": ""}
    for wrong in ("a", "=1", ""):
        with pytest.raises(ConfigError, match="write key=value"):
            split_assignments([wrong])
