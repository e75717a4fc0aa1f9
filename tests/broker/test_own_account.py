"""A broker with an account of its own signs whatever it asks for by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.config import ConfigHolder, NamesrvConfig, load_broker_config, read_properties
from skyrocketmq.errors import ConfigError
from skyrocketmq.nameserver import NameServer
from skyrocketmq.net import Connection, Dispatcher, Server
from skyrocketmq.ports import SystemClock
from skyrocketmq.testing import FaultyDisk
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.signing import is_signed_by
from tests.broker.house import ROOT, open_house


@asynccontextmanager
async def listening_name_server(heard: list[Frame]) -> AsyncIterator[str]:
    """A name server that says yes to everything, and keeps what it heard."""

    def answer(frame: Frame, connection: Connection) -> Frame:
        heard.append(frame)
        return frame.reply()

    async with await Server.start(("127.0.0.1", 0), Dispatcher(default=answer)) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("has_account", [True, False])
async def test_registering_and_leaving_are_signed_if_the_broker_has_an_account(has_account: bool) -> None:
    heard: list[Frame] = []
    account: dict[str, Any] = {"access_key": "the-broker", "secret_key": "its own secret"} if has_account else {}
    async with listening_name_server(heard) as address, open_house(namesrv_addresses=(address,), **account):
        pass
    assert {frame.code for frame in heard} == {RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER}
    for frame in heard:
        assert is_signed_by(frame.ext, frame.body, secret_key="its own secret") == has_account
        assert (frame.ext or {}).get("AccessKey") == ("the-broker" if has_account else None)


@pytest.mark.parametrize("key", ["brokerAccessKey", "brokerSecretKey"])
def test_half_an_account_is_a_mistake(key: str) -> None:
    with pytest.raises(ConfigError, match="go together"):
        load_broker_config(None, {}, {key: "only-one-half"})


async def test_a_secret_of_the_environment_is_shown_nowhere_and_copied_into_no_file() -> None:
    disk = FaultyDisk(directories=[ROOT])
    disk.replace(ROOT / "broker.conf", b"brokerAccessKey=the-broker\n")
    environ = {"SKYROCKETMQ_BROKER_SECRET_KEY": "its own secret"}
    loaded = load_broker_config(ROOT / "broker.conf", environ, disk=disk)
    holder = ConfigHolder(loaded, disk=disk, clock=SystemClock())
    await holder.update({"brokerPermission": "4"})
    assert "brokerSecretKey" not in read_properties(disk.read(ROOT / "broker.conf"))
    assert "its own secret" not in repr(holder.current) + repr(holder.as_properties())


ACCOUNTS = """
accounts:
  - {accessKey: the-broker, secretKey: its own secret, admin: true}
  - {accessKey: a-client, secretKey: its own secret, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
"""


@pytest.mark.parametrize(("access_key", "is_known"), [("the-broker", True), ("a-client", False), ("", False)])
async def test_a_name_server_with_accounts_takes_brokers_that_sign(
    tmp_path: Path, access_key: str, is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    config = NamesrvConfig(
        kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties", acl_enable=True
    )
    account: dict[str, Any] = {"access_key": access_key, "secret_key": access_key and "its own secret"}
    async with NameServer.open(config, host="127.0.0.1", port=0) as server:
        async with open_house(namesrv_addresses=(server.address,), **account):
            assert ("TBW102" in server.tables.topics()) == is_known
        assert server.tables.topics() == []  # it has said good-bye, or was never there
    reasons = "".join(str(vars(record).get("reason")) for record in caplog.records)
    assert ("AclException" in reasons) != is_known
