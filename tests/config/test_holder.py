"""A running server's configuration changes whole or not at all, and survives a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.config import (
    BrokerConfig,
    ConfigChange,
    ConfigHolder,
    NamesrvConfig,
    load_broker_config,
    load_namesrv_config,
    read_properties,
)
from skyrocketmq.config.fields import keys_of
from skyrocketmq.errors import ConfigError
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.testing import FaultyDisk, ManualClock, PowerLost


@pytest.fixture
async def disk() -> AsyncIterator[LocalDisk]:
    disk = LocalDisk(threads=1)
    yield disk
    disk.close()


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    conf = tmp_path / "broker.conf"
    conf.write_text("# mine\nbrokerName=broker-a\nlistenPort=20911\nstrange=kept\nfileReservedTime=48\n")
    return conf


@pytest.fixture
def holder(conf: Path, disk: LocalDisk) -> ConfigHolder[BrokerConfig]:
    return ConfigHolder(load_broker_config(conf, {}), disk=disk, clock=SystemClock())


async def test_a_change_is_seen_counted_and_told(holder: ConfigHolder[BrokerConfig]) -> None:
    told: list[ConfigChange[BrokerConfig]] = []
    unsubscribe = holder.subscribe(told.append)
    before = holder.version

    changed = await holder.update({"fileReservedTime": "24", "brokerPermission": "4"})

    assert changed == {"fileReservedTime", "brokerPermission"}
    assert holder.current.store.file_reserved_hours == 24
    assert holder.current.permission == 4
    assert holder.version.counter == before.counter + 1
    assert holder.version.timestamp_ms >= before.timestamp_ms
    assert [(change.before.permission, change.after.permission, change.keys) for change in told] == [(6, 4, changed)]

    unsubscribe()
    await holder.update({"brokerPermission": "6"})
    assert len(told) == 1


async def test_a_snapshot_that_was_taken_does_not_change(holder: ConfigHolder[BrokerConfig]) -> None:
    snapshot = holder.current
    await holder.update({"brokerPermission": "4"})
    assert snapshot.permission == 6


async def test_a_change_is_kept_for_the_next_start_with_all_other_keys(
    holder: ConfigHolder[BrokerConfig], conf: Path, disk: LocalDisk
) -> None:
    old_text = disk.read(conf)
    await holder.update({"fileReservedTime": "24"})

    reloaded = load_broker_config(conf, {})
    assert reloaded.config == holder.current
    assert reloaded.unknown == {"strange": "kept"}
    written = read_properties(disk.read(conf))
    assert written["fileReservedTime"] == "24"
    assert written["maxMessageSize"] == "4194304"
    assert disk.read(conf.with_name("broker.conf.bak")) == old_text


async def test_system_properties_and_passwords_stay_where_they_came_from(conf: Path, disk: LocalDisk) -> None:
    disk.replace(conf, b"tls.client.keyPassword=from-file\n")
    environ = {"TLS_SERVER_KEY_PASSWORD": "hunter2", "TLS_SERVER_MODE": "disabled"}
    holder = ConfigHolder(load_broker_config(conf, environ), disk=disk, clock=SystemClock())
    await holder.update({"brokerPermission": "4"})

    written = read_properties(disk.read(conf))
    assert {key for key in written if "." in key} == {"tls.client.keyPassword"}
    assert not {key for key in holder.as_properties() if "assword" in key}
    assert holder.as_properties()["tls.server.mode"] == "disabled"


async def test_unknown_keys_are_passed_over(holder: ConfigHolder[BrokerConfig]) -> None:
    assert await holder.update({"nonsense": "1", "brokerPermission": "4"}) == {"brokerPermission"}
    assert "nonsense" not in holder.as_properties()


async def test_a_key_may_be_changed_by_its_other_name(holder: ConfigHolder[BrokerConfig]) -> None:
    assert await holder.update({"isEnableBatchPush": "true"}) == {"enableBatchPush"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"fileReservedTime": "24", "brokerPermission": "x"}, 'brokerPermission = "x" is not a whole number'),
        ({"fileReservedTime": "24", "traceOn": "yes"}, 'traceOn = "yes" is not true or false'),
        ({"fileReservedTime": "24", "namesrvAddr": "nowhere"}, '"nowhere" is no address'),
        ({"fileReservedTime": "24", "listenPort": "none"}, 'listenPort = "none" is not'),
        ({"fileReservedTime": "24", "brokerRole": "SLAVE"}, "the id of a SLAVE must be greater than 0"),
        ({"fileReservedTime": "24", "enableDLegerCommitLog": "true"}, "DLedger is not supported"),
        ({"fileReservedTime": "24", "tls.server.mode": "disabled"}, "tls.server.mode is not changed by a request"),
        ({"fileReservedTime": "24", "rocketmq.acl.plain.file": "/tmp/acl.yml"}, "is not changed by a request"),
        ({"fileReservedTime": "24", "aclEnable": "true"}, "aclEnable is not changed by a request"),
        ({"fileReservedTime": "24", "rocketmq.home.dir": "/tmp"}, "rocketmqHome is not changed by a request"),
        ({"fileReservedTime": "24", "storePathRootDir": "/tmp"}, "storePathRootDir is not changed by a request"),
        ({"fileReservedTime": "24", "listenPort": "20931"}, "listenPort is not changed by a request"),
        ({"fileReservedTime": "24", "brokerSecretKey": "mine"}, "brokerSecretKey is not changed by a request"),
    ],
)
async def test_a_change_with_one_mistake_changes_nothing(
    holder: ConfigHolder[BrokerConfig], conf: Path, disk: LocalDisk, changes: dict[str, str], problem: str
) -> None:
    before, text, version = holder.current, disk.read(conf), holder.version
    with pytest.raises(ConfigError, match=problem):
        await holder.update(changes)
    assert (holder.current, disk.read(conf), holder.version) == (before, text, version)


async def test_an_unchangeable_key_may_be_sent_back_with_the_value_it_has(holder: ConfigHolder[BrokerConfig]) -> None:
    everything = holder.as_properties()
    everything["brokerPermission"] = "4"
    assert await holder.update(everything) == {"brokerPermission"}


async def test_a_key_that_counts_at_a_start_only_is_kept_for_the_next_one(
    holder: ConfigHolder[BrokerConfig], conf: Path, disk: LocalDisk, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[ConfigChange[BrokerConfig]] = []
    holder.subscribe(told.append)

    changed = await holder.update({"brokerName": "broker-z", "traceOn": "false"})

    assert changed == {"brokerName", "traceOn"}
    assert holder.pending == {"brokerName"}
    assert (holder.current.broker_name, holder.current.trace_on) == ("broker-a", False)
    assert told[0].keys == {"traceOn"}
    assert holder.as_properties()["brokerName"] == "broker-z"
    assert "count from the next start" in caplog.text
    assert holder.pending_text() == "these keys count from the next start: brokerName"
    assert load_broker_config(conf, {}).config.broker_name == "broker-z"


async def test_a_key_that_waits_for_the_next_start_stays_in_the_file_with_later_changes(
    holder: ConfigHolder[BrokerConfig], conf: Path
) -> None:
    await holder.update({"brokerName": "broker-z"})
    assert holder.pending == {"brokerName"}
    await holder.update({"traceOn": "false"})
    reloaded = load_broker_config(conf, {}).config
    assert (reloaded.broker_name, reloaded.trace_on) == ("broker-z", False)
    await holder.update({"brokerName": "broker-a"})
    assert holder.pending == frozenset()
    assert holder.pending_text() is None


async def test_a_change_that_cannot_be_written_is_not_made(disk: LocalDisk, conf: Path) -> None:
    blocked = conf  # a file where a directory is needed
    loaded = load_namesrv_config(None, {}, {"configStorePath": str(blocked / "namesrv.properties")})
    holder = ConfigHolder(loaded, disk=disk, clock=SystemClock())
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        await holder.update({"orderMessageEnable": "true"})
    assert holder.current.order_message_enable is False


async def test_changes_that_come_together_all_arrive(holder: ConfigHolder[BrokerConfig], conf: Path) -> None:
    await asyncio.gather(*(holder.update({key: "false"}) for key in ("traceOn", "longPollingEnable", "forceRegister")))
    await asyncio.gather(holder.update({"regionId": "a"}), holder.update({"fileReservedTime": "1"}))
    assert (holder.current.trace_on, holder.current.long_polling) == (False, False)
    assert (holder.current.region_id, holder.current.store.file_reserved_hours) == ("a", 1)
    assert load_broker_config(conf, {}).config == holder.current
    assert holder.version.counter == 5


async def test_values_are_moved_into_their_bounds(holder: ConfigHolder[BrokerConfig]) -> None:
    await holder.update({"diskMaxUsedSpaceRatio": "99"})
    assert holder.current.store.disk_used_percent_max == 95


async def test_a_listener_that_fails_does_not_stop_the_others(
    holder: ConfigHolder[BrokerConfig], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(change: ConfigChange[BrokerConfig]) -> None:
        raise RuntimeError("broken")

    told: list[ConfigChange[BrokerConfig]] = []
    holder.subscribe(fail)
    holder.subscribe(told.append)
    await holder.update({"brokerPermission": "4"})
    assert len(told) == 1
    assert "a listener failed" in caplog.text


async def test_an_operator_is_told_when_the_next_start_will_undo_a_change(
    disk: LocalDisk, conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load_broker_config(conf, {"SKYROCKETMQ_BROKER_PERMISSION": "6"})
    holder = ConfigHolder(loaded, disk=disk, clock=SystemClock())
    with caplog.at_level(logging.WARNING):
        await holder.update({"brokerPermission": "4"})
    assert [record.message for record in caplog.records] == ["the next start will undo this change"]


async def test_a_configuration_without_a_file_changes_in_memory(disk: LocalDisk) -> None:
    holder = ConfigHolder.of(NamesrvConfig(), disk=disk, clock=SystemClock())
    assert await holder.update({"orderMessageEnable": "true"}) == {"orderMessageEnable"}
    assert holder.current.order_message_enable


def test_a_broker_shows_what_apaches_shows(holder: ConfigHolder[BrokerConfig]) -> None:
    shown = holder.as_properties()
    assert shown["brokerName"] == "broker-a"
    assert shown["haListenPort"] == "20912"
    assert shown["autoCreateTopicEnable"] == "true"
    assert shown["brokerRole"] == "ASYNC_MASTER"
    assert shown["strange"] == "kept"
    assert "haMasterAddress" not in shown  # it has no value


@pytest.mark.parametrize("load", [load_broker_config, load_namesrv_config])
@pytest.mark.parametrize(
    "name",
    ["tls.server.keypassword", "BROKERSECRETKEY", "secretKey", "accessKey", "access.key", "securityToken", "db.passwd"],
)
async def test_secrets_under_keys_that_nobody_knows_are_kept_and_not_shown(
    conf: Path, disk: LocalDisk, load: Callable[..., Any], name: str
) -> None:
    disk.replace(conf, f"strange=kept\n{name}=very-secret\n".encode())
    holder = ConfigHolder(load(conf, {}), disk=disk, clock=SystemClock())
    assert "very-secret" not in holder.as_properties().values()
    assert holder.as_properties()["strange"] == "kept"
    await holder.update({"orderMessageEnable": "true"})
    assert read_properties(disk.read(conf))[name] == "very-secret"


def test_no_server_shows_what_is_a_secret_of_the_other(conf: Path, disk: LocalDisk) -> None:
    secrets = {key.name for kind in (BrokerConfig, NamesrvConfig) for key in keys_of(kind) if key.declared.secret}
    lines = ["brokerAccessKey=the-brokers", *(f"{name}=very-secret" for name in secrets)]
    disk.replace(conf, "\n".join(lines).encode())
    for loaded in (load_broker_config(conf, {}), load_namesrv_config(conf, {})):
        holder: ConfigHolder[Any] = ConfigHolder(loaded, disk=disk, clock=SystemClock())
        assert "very-secret" not in holder.as_properties().values()


async def test_a_power_cut_during_a_change_leaves_the_old_file_or_the_new_one() -> None:
    directory = Path("/conf")
    crash_at = 0
    while True:
        disk = FaultyDisk(directories=[directory])
        disk.replace(directory / "namesrv.conf", b"listenPort=1\norderMessageEnable=false\n")
        loaded = load_namesrv_config(directory / "namesrv.conf", {}, disk=disk)
        holder = ConfigHolder(loaded, disk=disk, clock=ManualClock())
        disk.crash_at = len(disk.calls) + crash_at
        try:
            await holder.update({"orderMessageEnable": "true"})
        except PowerLost:
            acknowledged = False
        else:
            acknowledged = True
        for seed in range(10):
            found = load_namesrv_config(directory / "namesrv.conf", {}, disk=disk.after_power_loss(seed)).config
            assert found.server.listen_port == 1
            assert found.order_message_enable or not acknowledged
        if acknowledged:
            break
        crash_at += 1
    assert crash_at > 5, "the change was made in several calls, each of them tried"
