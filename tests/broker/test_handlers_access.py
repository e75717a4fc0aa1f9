"""Requests about accounts: made, changed, shown, taken away, by administrators."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
import yaml

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import ACL_PATH, SECRETS, signed
from tests.broker.house import House, Peer, open_house
from tests.broker.requests import TOPIC, send_frame
from tests.broker.test_access import accounts, guarded_house, make_topic
from tests.net.elsewhere import ElsewhereLink

NEW = {"accessKey": "new-account", "secretKey": "new-secret", "admin": "false", "defaultTopicPerm": "PUB"}


async def ask_as_admin(peer: Peer, code: int, **fields: str) -> Frame:
    return await peer.ask(signed(Frame(code, 1, ext={**fields}), "the-admin"))


def saved(house: House) -> dict[str, dict[str, object]]:
    return {str(each["accessKey"]): each for each in yaml.safe_load(house.disk.read(ACL_PATH))["accounts"]}


async def test_an_account_is_made_changed_and_deleted_at_once_and_in_the_file() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        assert (await ask_as_admin(peer, 50, **NEW)).code == 0
        await peer.ok(signed(send_frame(), "new-account", secret="new-secret"))
        assert saved(house)["new-account"]["defaultTopicPerm"] == "PUB"
        changed = {"accessKey": "new-account", "secretKey": "other-secret", "topicPerms": f"{TOPIC}=DENY,Other=PUB|SUB"}
        assert (await ask_as_admin(peer, 50, **changed)).code == 0
        await peer.refused(signed(send_frame(), "new-account", secret="new-secret"))
        await peer.refused(signed(send_frame(), "new-account", secret="other-secret"))
        assert saved(house)["new-account"] == {
            "accessKey": "new-account",
            "secretKey": "other-secret",
            "admin": False,
            "defaultTopicPerm": "PUB",
            "topicPerms": [f"{TOPIC}=DENY", "Other=PUB|SUB"],
        }
        assert (await ask_as_admin(peer, 51, accessKey="new-account")).code == 0
        assert "new-account" not in saved(house)
        assert set(saved(house)) == set(accounts(house))
        version = yaml.safe_load(house.disk.read(ACL_PATH))["dataVersion"][0]
        assert version["counter"] == 3
        assert abs(version["timestamp"] - house.clock.now_ms()) < 60_000


async def test_a_secret_that_is_not_given_stays() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        assert (await ask_as_admin(peer, 50, **NEW)).code == 0
        assert (await ask_as_admin(peer, 50, accessKey="new-account", topicPerms=f"{TOPIC}=PUB")).code == 0
        assert saved(house)["new-account"]["secretKey"] == "new-secret"
        await peer.ok(signed(send_frame(), "new-account", secret="new-secret"))
        assert (await ask_as_admin(peer, 50, accessKey="unknown-account")).code == 209


async def test_the_rest_of_the_file_stays_when_an_account_changes() -> None:
    async with guarded_house() as (house, peer):
        before = yaml.safe_load(house.disk.read(ACL_PATH))
        assert (await ask_as_admin(peer, 50, **NEW)).code == 0
        after = yaml.safe_load(house.disk.read(ACL_PATH))
        assert after["globalWhiteRemoteAddresses"] == before["globalWhiteRemoteAddresses"]
        assert after["accounts"][:-1] == before["accounts"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"accessKey": "short"}, "fewer than 7"),
        ({"secretKey": "short"}, "fewer than 7"),
        ({"topicPerms": "Orders"}, "has not the form"),
        ({"topicPerms": "Orders=READ"}, "no permission"),
        ({"groupPerms": "orders=READ"}, "no permission"),
        ({"whiteRemoteAddress": "10.1"}, "no pattern"),
    ],
)
async def test_an_account_that_cannot_be_is_not_made(fields: dict[str, str], reason: str) -> None:
    async with guarded_house() as (house, peer):
        before = house.disk.read(ACL_PATH)
        answer = await ask_as_admin(peer, 50, **{**NEW, **fields})
        assert answer.code == 209
        assert reason in (answer.remark or "")
        assert "short" not in (answer.remark or "") or "secretKey" not in fields
        assert house.disk.read(ACL_PATH) == before


async def test_an_unknown_account_cannot_be_deleted() -> None:
    async with guarded_house() as (_, peer):
        answer = await ask_as_admin(peer, 51, accessKey="not-there")
        assert (answer.code, "not-there" in (answer.remark or "")) == (210, True)


async def test_the_white_list_is_replaced() -> None:
    async with guarded_house() as (house, peer):
        await peer.refused(Frame(28, 1))
        answer = await ask_as_admin(peer, 53, globalWhiteAddrs="127.0.0.1,10.0.*.*", aclFileFullPath="")
        assert answer.code == 0
        await peer.ok(Frame(28, 1))
        assert yaml.safe_load(house.disk.read(ACL_PATH))["globalWhiteRemoteAddresses"] == ["127.0.0.1", "10.0.*.*"]
        for fields in ({"globalWhiteAddrs": "127.0"}, {"globalWhiteAddrs": "1.1.1.1", "aclFileFullPath": "/etc/x.yml"}):
            assert (await ask_as_admin(peer, 53, **fields)).code == 211


async def test_an_account_of_another_file_is_changed_there() -> None:
    async with guarded_house() as (house, peer):
        path = ACL_PATH.parent / "acl" / "team.yml"
        house.disk.make_directories(path.parent)
        house.disk.replace(path, b"accounts:\n- {accessKey: team-writer, secretKey: team-secret}")
        assert house.broker.access is not None
        await house.broker.access.book.follow_files()
        answer = await ask_as_admin(peer, 50, accessKey="team-writer", secretKey="team-secret", defaultTopicPerm="SUB")
        assert answer.code == 0
        assert yaml.safe_load(house.disk.read(path))["accounts"][0]["defaultTopicPerm"] == "SUB"
        assert "team-writer" not in saved(house)
        white = {"globalWhiteAddrs": "10.0.0.1", "aclFileFullPath": str(path)}
        assert (await ask_as_admin(peer, 53, **white)).code == 0
        assert yaml.safe_load(house.disk.read(path))["globalWhiteRemoteAddresses"] == ["10.0.0.1"]


async def test_versions_and_accounts_are_shown() -> None:
    async with guarded_house() as (house, peer):
        assert (await ask_as_admin(peer, 50, **NEW)).code == 0
        answer = await ask_as_admin(peer, 52)
        assert answer.ext is not None
        assert json.loads(answer.ext["version"] or "")["counter"] == 1
        assert json.loads(answer.ext["allAclFileVersion"] or "")[str(ACL_PATH)]["counter"] == 1
        assert (answer.ext["brokerAddr"], answer.ext["brokerName"]) == (house.broker.address, "broker-a")
        shown = json.loads((await ask_as_admin(peer, 54)).body)
        assert shown["globalWhiteAddrs"] == ["10.9.8.*"]
        keys = [account["accessKey"] for account in shown["plainAccessConfigs"]]
        assert keys == ["the-admin", "the-writer", "the-reader", "the-nobody", "numeric1", "new-account"]
        assert shown["plainAccessConfigs"][0] == {
            "accessKey": "the-admin",
            "admin": True,
            "groupPerms": [],
            "topicPerms": [],
        }


STRANGER = "127.0.1.7"  # seen as 10.0.1.7


@pytest.mark.parametrize("answers_secrets", [False, True])
async def test_secrets_are_shown_if_the_file_says_so_and_on_encrypted_connections_only(answers_secrets: bool) -> None:
    """A signature that was heard elsewhere may come again as this request, encrypted by who heard it."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    async with guarded_house(
        link=ElsewhereLink(), acl_requests_in_plain_text=True, acl_answers_secrets=answers_secrets
    ) as (house, peer):
        hidden = await house.connect(source=STRANGER, tls=tls)
        for connection, is_shown in (
            (hidden, answers_secrets),
            (peer, False),
            (await house.connect(source=STRANGER), False),
        ):
            shown = (await ask_as_admin(connection, 54)).body
            assert b"the-admin" in shown
            assert {secret.encode() in shown for secret in SECRETS.values()} == {is_shown}


@pytest.mark.parametrize("code", range(50, 55))
async def test_requests_about_accounts_are_not_taken_where_others_can_listen(code: int) -> None:
    async with guarded_house(link=ElsewhereLink()) as (house, peer):
        before = house.disk.read(ACL_PATH)
        stranger = await house.connect(source=STRANGER)
        answer = await ask_as_admin(stranger, code, **NEW, globalWhiteAddrs="*")
        assert (answer.code, answer.body) == (1, b"")
        assert "aclRequestsInPlainText" in (answer.remark or "")
        assert house.disk.read(ACL_PATH) == before
        here = await ask_as_admin(peer, code, **NEW, globalWhiteAddrs="*")
        assert "AclException" not in (here.remark or "")


@pytest.mark.parametrize(("code", "answered"), [(50, 209), (51, 210), (52, 1), (53, 211), (54, 1)])
async def test_without_access_control_there_are_no_accounts(code: int, answered: int) -> None:
    async with open_house() as house:
        peer = await house.connect()
        refused, remark = await peer.refused(Frame(code, 1, ext={**NEW, "globalWhiteAddrs": "1.1.1.1"}))
        assert (refused, "aclEnable" in remark) == (answered, True)
        assert not house.disk.exists(Path("/store/conf/plain_acl.yml"))


@pytest.mark.parametrize("key", ["namesrvAddr", "rocketmq.namesrv.addr"])
async def test_no_request_makes_a_broker_sign_for_a_name_server_of_its_own_choice(key: str) -> None:
    async with guarded_house() as (house, peer):
        change = Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=f"{key}=127.0.0.1:1".encode())
        code, remark = await peer.refused(signed(change, "the-admin"))
        assert (code, "aclEnable" in remark) == (1, True)
        now = ";".join(house.broker.config.current.namesrv_addresses)
        same = Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=f"{key}={now}".encode())
        await peer.ok(signed(same, "the-admin"))
