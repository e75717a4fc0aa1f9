"""Every key of Apache 4.9.7 is known, under its name, with its default; and the declarations are sound."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from skyrocketmq.config import (
    BROKER_PORT,
    EMBEDDED_DEFAULTS,
    NAMESRV_PORT,
    BrokerConfig,
    BrokerRole,
    ClientConfig,
    FlushDiskType,
    KeyTable,
    NamesrvConfig,
    ServerConfig,
    StoreConfig,
    TlsConfig,
    load_broker_config,
)
from skyrocketmq.config.fields import Key, Section, format_value, keys_of, parse_value, upper_snake, value_of
from skyrocketmq.errors import ConfigError
from tests.config import apache_keys

KINDS: list[type[Section]] = [BrokerConfig, NamesrvConfig]
OTHER_DEFAULTS = {"maxTransferCountOnMessageInMemory": "256"}  # docs/adr/0007 says why
OUR_OWN = {
    "haNewestFileOnly",
    "skipLostQueueOffsets",
    "haSlaveAddresses",
    "haSignatureRequired",
    "haSlavesMax",
    "haTlsMode",
    "haUseTLS",
    "bindAddress",
    "inconsistentSubscriptionGraceMillis",
    "heartbeatGroupsMax",
    "heartbeatSubscriptionsMax",
    "heartbeatTagsMax",
    "queueLocksMax",
    "queueLocksPerGroupMax",
    "pullTagsMax",
    "batchMessagesMax",
    "heldPullsPerConnectionMax",
    "heldPullMillisMax",
    "brokerAccessKey",
    "brokerSecretKey",
    "aclWhiteAddressSparesPermissions",
    "aclAnswersSecrets",
    "aclRequestsInPlainText",
    "changesAllowedFrom",
    "tls.client.checkHostname",
    "allowBrokerTakeover",
    "brokersPerConnectionMax",
    "loopStallMillis",
}


def default_of(kind: type[Section], name: str) -> list[str | None]:
    keys = KeyTable(kind).find(name)
    return [format_value(key, value_of(kind(), key)) for key in keys]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        *((StoreConfig, name, text) for name, text in apache_keys.STORE.items()),
        *((ServerConfig, name, text) for name, text in apache_keys.SERVER.items()),
        *((ClientConfig, name, text) for name, text in apache_keys.CLIENT.items()),
        *((BrokerConfig, name, text) for name, text in (apache_keys.BROKER | apache_keys.SYSTEM).items()),
        *((NamesrvConfig, name, text) for name, text in apache_keys.NAMESRV.items()),
    ],
)
def test_each_key_of_apache_has_its_default(kind: type[Section], name: str, expected: str | None) -> None:
    found = default_of(kind, name)
    assert found, f"{name} is unknown"
    if expected == apache_keys.MACHINE:
        assert None not in found
    else:
        assert set(found) == {OTHER_DEFAULTS.get(name, expected)}


def test_there_are_no_keys_that_apache_does_not_have() -> None:
    tables = (apache_keys.BROKER, apache_keys.STORE, apache_keys.SERVER, apache_keys.CLIENT, apache_keys.NAMESRV)
    apache = set().union(*tables, apache_keys.SYSTEM) | OUR_OWN
    ours = {name for kind in KINDS for key in keys_of(kind) for name in key.names}
    assert ours - apache == {"enableBatchPush"}  # the name that sets what Apache lists as isEnableBatchPush


def test_name_server_and_broker_listen_on_their_own_ports() -> None:
    assert NamesrvConfig().server.listen_port == NAMESRV_PORT == 9876
    assert BrokerConfig().server.listen_port == BROKER_PORT == 10911


def test_defaults_that_name_files_lie_below_the_users_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert NamesrvConfig().kv_config_path == tmp_path / "namesrv" / "kvConfig.json"
    assert NamesrvConfig().config_store_path == tmp_path / "namesrv" / "namesrv.properties"
    assert BrokerConfig().store.root_path == tmp_path / "store"
    assert BrokerConfig().store.commit_log_directories == (tmp_path / "store" / "commitlog",)


@pytest.mark.parametrize("kind", KINDS)
def test_each_variable_of_the_environment_means_one_key(kind: type[Section]) -> None:
    owners: dict[str, str] = {}
    for key in keys_of(kind):
        for variable in key.environment_names:
            assert owners.setdefault(variable, key.name) == key.name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("listenPort", "LISTEN_PORT"),
        ("brokerIP1", "BROKER_IP1"),
        ("useTLS", "USE_TLS"),
        ("checkCRCOnRecover", "CHECK_CRC_ON_RECOVER"),
        ("tls.server.keyPath", "TLS_SERVER_KEY_PATH"),
        ("tls.server.need.client.auth", "TLS_SERVER_NEED_CLIENT_AUTH"),
        ("scheduleAsyncDeliverMaxResendNum2Blocked", "SCHEDULE_ASYNC_DELIVER_MAX_RESEND_NUM2_BLOCKED"),
    ],
)
def test_variables_are_the_keys_in_upper_snake_case(name: str, expected: str) -> None:
    assert upper_snake(name) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_each_default_survives_being_written_and_read(kind: type[Section]) -> None:
    config = kind()
    for key in keys_of(kind):
        value = value_of(config, key)
        text = format_value(key, value)
        assert text is None or parse_value(key, text) == value, key.name


@pytest.mark.parametrize("kind", [*KINDS, StoreConfig, ServerConfig, ClientConfig, TlsConfig])
def test_configuration_is_frozen(kind: type[Section]) -> None:
    config = kind()
    name = fields(config)[0].name  # type: ignore[arg-type]  # every section is a dataclass
    with pytest.raises(FrozenInstanceError):
        setattr(config, name, None)


def test_numbers_are_kept_within_their_bounds_however_they_are_set() -> None:
    assert BrokerConfig(register_period_ms=1).register_period_ms == 10_000
    assert BrokerConfig(register_period_ms=90_000).register_period_ms == 60_000
    assert StoreConfig(disk_used_percent_max=5).disk_used_percent_max == 10
    assert StoreConfig(disk_used_percent_max=99).disk_used_percent_max == 95
    assert StoreConfig(queue_file_bytes=101).queue_file_bytes == 120
    assert StoreConfig(queue_file_bytes=120).queue_file_bytes == 120


def key_named(name: str) -> Key:
    return KeyTable(BrokerConfig).find(name)[0]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("listenPort", " 10911 ", 10911),
        ("maxMessageSize", "+65536", 65536),
        ("brokerId", "9223372036854775807", 2**63 - 1),
        ("traceOn", "TRUE", True),
        ("traceOn", "False", False),
        ("namesrvAddr", "a:1; b:2;", ("a:1", "b:2")),
        ("brokerRole", "SLAVE", BrokerRole.SLAVE),
        ("tls.server.need.client.auth", "REQUIRE", "require"),
        ("rocketmq.broker.diskSpaceWarningLevelRatio", "0.95", 0.95),
        ("haMasterAddress", "", None),
        ("storePathRootDir", "/data/store", Path("/data/store")),
    ],
)
def test_text_becomes_a_typed_value(name: str, text: str, value: object) -> None:
    assert parse_value(key_named(name), text) == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("listenPort", "abc", "a whole number"),
        ("listenPort", "1_000", "a whole number"),
        ("listenPort", "", "a whole number"),
        ("listenPort", "1.5", "a whole number"),
        ("listenPort", "9" * 5000, "a whole number"),
        ("listenPort", "70000", "a whole number of at most 65535"),
        ("listenPort", "-1", "a whole number of at least 0"),
        ("maxMessageSize", "2147483648", "a whole number of at most 2147483647"),
        ("traceOn", "yes", "true or false"),
        ("brokerRole", "MASTER", "one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ("brokerRole", "slave", "one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ("flushDiskType", "SYNC", "one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("tls.server.mode", "on", "one of disabled, permissive, enforcing"),
        ("rocketmq.broker.diskSpaceWarningLevelRatio", "nan", "a number"),
        ("storePathRootDir", " ", "a path"),
    ],
)
def test_text_that_cannot_be_read_says_what_is_expected(name: str, text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        parse_value(key_named(name), text)


def test_a_store_may_have_several_commit_log_directories() -> None:
    store = StoreConfig(commit_log_path="/b, /a", read_only_commit_log_paths="/b")
    assert store.commit_log_directories == (Path("/a"), Path("/b"))
    assert store.read_only_commit_log_directories == {Path("/b")}
    assert StoreConfig(commit_log_path="/b:/a", path_separator=":").commit_log_directories == (Path("/a"), Path("/b"))


def test_delay_levels_are_read_in_milliseconds() -> None:
    assert StoreConfig().delay_levels_ms[:5] == (1_000, 5_000, 10_000, 30_000, 60_000)
    assert StoreConfig().delay_levels_ms[-1] == 7_200_000
    assert len(StoreConfig().delay_levels_ms) == 18
    assert StoreConfig(delay_levels="1d").delay_levels_ms == (86_400_000,)
    with pytest.raises(ConfigError, match='"5x"'):
        _ = StoreConfig(delay_levels="1s 5x").delay_levels_ms


def test_hours_of_deletion_are_numbers() -> None:
    assert StoreConfig().delete_hours == {4}
    assert StoreConfig(delete_when="04; 16;night").delete_hours == {4, 16}


def test_the_transient_pool_acts_only_on_masters_that_flush_later() -> None:
    assert StoreConfig(transient_pool_enable=True).uses_transient_pool
    assert not StoreConfig().uses_transient_pool
    assert not StoreConfig(transient_pool_enable=True, broker_role=BrokerRole.SLAVE).uses_transient_pool
    assert not StoreConfig(transient_pool_enable=True, flush_disk_type=FlushDiskType.SYNC_FLUSH).uses_transient_pool


def test_the_embedded_defaults_take_megabytes() -> None:
    store = load_broker_config(environ={}, defaults=EMBEDDED_DEFAULTS).config.store
    assert store.commit_log_file_bytes == 64 * 1024 * 1024
    assert 40 + 4 * store.index_slot_count + 20 * store.index_entry_count < 5_000_000
    assert store.queue_file_bytes == 600_000


def test_passwords_do_not_show_in_a_representation() -> None:
    assert "hunter2" not in repr(TlsConfig(server_key_password="hunter2", client_key_password="hunter2"))


# Who is let in, where files are, which addresses and ports are used.
RESERVED = re.compile(r"[pP]ath|Dir$|Home$|Port$|^bind|^tls|^useTLS|^acl|Secret|Password|AccessKey|IP[12]$|Domain")
NOT_RESERVED = {
    "readOnlyCommitLogStorePaths",  # says which of the known directories are not written: it names no new place
}


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_what_decides_who_is_let_in_and_where_files_are_is_reserved(kind: type[Section]) -> None:
    keys = [key for key in keys_of(kind) if not key.declared.unused]
    assert [key.name for key in keys if key.kind is Path and not key.is_reserved] == []
    assert [key.name for key in keys if key.declared.secret and not key.is_reserved] == []
    open_ones = {key.name for key in keys if RESERVED.search(key.name) and not key.is_reserved}
    assert open_ones <= NOT_RESERVED
