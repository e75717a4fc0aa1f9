"""Access control at a broker: each refusal, what passes, and what a refused client learns: nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.broker.requests import NEEDS
from skyrocketmq.model.names import retry_topic
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_clients import CheckClientRequest, QueueLockRequest
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import ACL_FILE, ACL_PATH, SECRETS, signed
from tests.broker.house import ROOT, House, Peer, open_house
from tests.broker.requests import (
    GROUP,
    TOPIC,
    as_version_1,
    heartbeat_frame,
    properties_text,
    pull_frame,
    send_frame,
    subscription,
    unique_id,
)
from tests.broker.support import until
from tests.store.reader import read_records

LOCAL_IS_WHITE = "globalWhiteRemoteAddresses: ['127.0.0.1']\n"


@asynccontextmanager
async def guarded_house(text: str = ACL_FILE, **changes: Any) -> AsyncIterator[tuple[House, Peer]]:
    """A broker with accounts, a topic, and a peer that signs nothing by itself."""
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT, ACL_PATH.parent], clock=clock)
    disk.replace(ACL_PATH, text.encode())
    async with open_house(disk=disk, clock=clock, acl_enable=True, acl_file=ACL_PATH, **changes) as house:
        peer = await house.connect()
        house.broker.tables.topics.get_retry_topic(GROUP, queue_count=1, unit_mode=False)
        yield house, peer


def topic_frame(topic: str) -> Frame:
    ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    return Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, ext={**ext, "topicFilterType": "SINGLE_TAG", "order": "false"})


async def make_topic(peer: Peer, topic: str = TOPIC) -> None:
    await peer.ok(signed(topic_frame(topic), "the-admin"))


async def check_refused(peer: Peer, frame: Frame, *words: str) -> str:
    code, remark = await peer.refused(frame)
    assert code == 1
    assert remark.startswith("org.apache.rocketmq.acl.common.AclException: ")
    for word in words:
        assert word in remark
    return remark


def batch_frame() -> Frame:
    body = encode_batch([(0, b"one", b""), (0, b"two", b"")])
    return send_frame(code=RequestCode.SEND_BATCH_MESSAGE, body=body, m="true")


# ------------------------------------------------------------------------------------------------------ who is it?


@pytest.mark.parametrize("frame", [send_frame(), as_version_1(send_frame()), pull_frame(), Frame(28, 1)])
async def test_a_request_without_an_account_is_refused(frame: Frame) -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        await check_refused(peer, frame, "access key is not known")


async def test_an_unknown_account_is_answered_like_a_wrong_signature() -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        unknown = await check_refused(peer, signed(send_frame(), "not-there", secret="whatever"))
        wrong = await check_refused(peer, signed(send_frame(), "the-writer", secret="whatever"))
        assert unknown == wrong


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_changed_request_no_longer_fits_its_signature(is_binary: bool) -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        frame = signed(send_frame(is_binary=is_binary, body=b"10 coins"), "the-writer")
        await peer.ok(frame)
        frame.body = b"99 coins"
        await check_refused(peer, frame, "signature")
        frame = signed(send_frame(is_binary=is_binary), "the-writer")
        assert frame.ext is not None
        frame.ext["e"] = "1"
        await check_refused(peer, frame, "signature")
        assert house.broker.store.max_offset(TOPIC, 0) == 1
        assert house.broker.store.max_offset(TOPIC, 1) == 0


async def test_a_white_address_needs_no_account_except_for_accounts() -> None:
    async with guarded_house(LOCAL_IS_WHITE + ACL_FILE.replace("globalWhite", "other")) as (_, peer):
        await peer.ok(topic_frame(TOPIC))
        await peer.ok(send_frame())
        await peer.ok(pull_frame())
        for code in range(50, 55):
            await check_refused(peer, Frame(code, 1, ext={}))
        await peer.ok(signed(Frame(54, 1), "the-admin"))


def unsigned(frame: Frame, account: str) -> Frame:
    """The request of a client that only says who it is."""
    frame.ext = {**(frame.ext or {}), "AccessKey": account}
    return frame


async def test_an_accounts_own_address_spares_the_signature_and_no_permission() -> None:
    text = ACL_FILE.replace("accessKey: the-reader", "accessKey: the-reader\n    whiteRemoteAddress: 127.0.0.*")
    async with guarded_house(text) as (_, peer):
        await make_topic(peer)
        await peer.ok(signed(send_frame(), "the-writer"))
        await peer.ok(unsigned(pull_frame(), "the-reader"))
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": "0"})
        await peer.ok(unsigned(view, "the-reader"))
        await check_refused(peer, unsigned(send_frame(), "the-reader"), f"topic {TOPIC}")
        await check_refused(peer, unsigned(pull_frame("Secret"), "the-reader"), "topic Secret")
        await check_refused(peer, unsigned(pull_frame("SCHEDULE_TOPIC_XXXX"), "the-reader"), "topic SCHEDULE")
        await check_refused(peer, unsigned(topic_frame("Other"), "the-reader"), "administrator")


async def test_a_message_is_not_shown_at_an_accounts_own_address_if_its_topic_is_not_for_it() -> None:
    text = ACL_FILE.replace("accessKey: the-nobody", "accessKey: the-nobody\n    whiteRemoteAddress: 127.0.0.*")
    async with guarded_house(text) as (_, peer):
        await make_topic(peer)
        await peer.ok(signed(send_frame(), "the-writer"))
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": "0"})
        await check_refused(peer, unsigned(view, "the-nobody"), "no permission for this message")


async def test_where_it_is_wanted_an_accounts_own_address_spares_permissions_but_makes_no_administrator() -> None:
    text = ACL_FILE.replace("accessKey: the-nobody", "accessKey: the-nobody\n    whiteRemoteAddress: 127.0.0.*")
    async with guarded_house(text, acl_white_address_spares_permissions=True) as (_, peer):
        await make_topic(peer)
        send, pull, admin = send_frame(), pull_frame(), topic_frame("Other")
        for frame in (send, pull, admin):
            assert frame.ext is not None
            frame.ext["AccessKey"] = "the-nobody"
        await peer.ok(send)
        await peer.ok(pull)
        await check_refused(peer, admin, "administrator")
        send.ext = {**(send.ext or {}), "AccessKey": "the-writer"}
        await check_refused(peer, send, "signature")


# --------------------------------------------------------------------------------------------------------- sending


@pytest.mark.parametrize(
    "frame", [send_frame(), send_frame(is_binary=True), as_version_1(send_frame()), batch_frame()], ids=repr
)
async def test_any_send_needs_the_permission_to_publish(frame: Frame) -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        await peer.ok(signed(frame, "the-writer"))
        stored = house.broker.store.max_offset(TOPIC, 0)
        for account in ("the-reader", "the-nobody"):
            await check_refused(peer, signed(frame, account), f"no permission for topic {TOPIC}")
        assert house.broker.store.max_offset(TOPIC, 0) == stored


async def test_plain_sends_of_many_accounts_in_one_buffer_are_each_checked() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        accounts = ["the-writer", "the-reader", "the-writer", "numeric1", "the-nobody", "the-writer"]
        await peer.write(*[signed(send_frame(opaque=n, body=b"%d" % n), account) for n, account in enumerate(accounts)])
        answers = await peer.all(len(accounts))
        assert [answers[n].code for n in range(6)] == [0, 1, 0, 0, 1, 0]
        found = await peer.ok(signed(pull_frame(), "numeric1"))
        assert [record.body for record in read_records(found.body)] == [b"0", b"2", b"3", b"5"]
        assert house.broker.store.max_offset(TOPIC, 0) == 4


async def test_a_retry_topic_belongs_to_its_group_whatever_the_sender_calls_itself() -> None:
    async with guarded_house() as (_, peer):
        frame = send_frame(retry_topic(GROUP), a="some-producer", properties=properties_text({"DELAY": "1"}))
        await peer.ok(signed(frame, "the-reader"))
        await check_refused(peer, signed(frame, "the-writer"), f"group {GROUP}")
        others = send_frame(retry_topic("others"), a=GROUP)
        await check_refused(peer, signed(others, "the-reader"), "group others")


async def test_traces_may_be_sent_by_every_account() -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer, "RMQ_SYS_TRACE_TOPIC_COPY")
        trace = send_frame("RMQ_SYS_TRACE_TOPIC")
        await peer.ok(signed(trace, "the-nobody"))
        await check_refused(peer, trace)


# --------------------------------------------------------------------------------------------------------- reading


async def test_a_pull_needs_topic_and_group() -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        await peer.ok(signed(send_frame(body=b"secret message"), "the-writer"))
        answer = await peer.ok(signed(pull_frame(), "the-reader"))
        assert [record.body for record in read_records(answer.body)] == [b"secret message"]
        for frame, account, missing in (
            (pull_frame(), "the-writer", f"topic {TOPIC}"),
            (pull_frame(), "the-nobody", f"topic {TOPIC}"),
            (pull_frame(group="others"), "the-reader", "group others"),
            (pull_frame("Missing"), "the-reader", "topic Missing"),
            (pull_frame(retry_topic("others")), "the-reader", "group others"),
        ):
            answer = await peer.ask(signed(frame, account))
            assert (answer.code, answer.body, answer.ext) == (1, b"", {} if answer.ext == {} else None)
            assert missing in (answer.remark or "")


async def test_a_message_is_shown_only_to_readers_of_its_topic() -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        await peer.ok(signed(send_frame(), "the-writer"))
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": "0"})
        assert (await peer.ok(signed(view, "the-reader"))).body
        assert (await peer.ok(signed(view, "the-admin"))).body
        remark = await check_refused(peer, signed(view, "the-nobody"), "no permission for this message")
        assert TOPIC not in remark


async def test_only_a_reader_of_a_message_can_have_it_sent_to_its_group() -> None:
    text = ACL_FILE.replace("accessKey: the-nobody", f"accessKey: the-nobody\n    groupPerms: [{GROUP}=SUB]")
    async with guarded_house(text) as (_, peer):
        await make_topic(peer)
        await peer.ok(signed(send_frame(), "the-writer"))
        ext = {"offset": "0", "group": GROUP, "delayLevel": "1", "originTopic": TOPIC, "unitMode": "false"}
        back = Frame(RequestCode.CONSUMER_SEND_MSG_BACK, 1, ext=dict(ext))
        await check_refused(peer, signed(back, "the-nobody"), "no permission for this message")
        await check_refused(peer, signed(back, "the-writer"), f"group {GROUP}")
        await peer.ok(signed(back, "the-reader"))


@pytest.mark.parametrize("are_flags_signed", [False, True], ids=["as before 4.9.4", "as from 4.9.4 on"])
async def test_a_signed_query_by_key_is_answered(are_flags_signed: bool) -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        text = properties_text({"UNIQ_KEY": unique_id(1), "KEYS": "k1"})
        await peer.ok(signed(send_frame(properties=text), "the-writer"))
        for key, is_unique in (("k1", "false"), (unique_id(1), "true")):
            ext = {"topic": TOPIC, "key": key, "maxNum": "10", "beginTimestamp": "0", "endTimestamp": str(2**62)}
            flagged = {**ext, "_UNIQUE_KEY_QUERY": is_unique}
            if are_flags_signed:  # under another name while it is signed, which sorts to the same place
                request = signed(
                    Frame(RequestCode.QUERY_MESSAGE, 1, ext={**ext, "_UNIQUE_KEY_QUERX": is_unique}), "the-reader"
                )
                assert request.ext is not None
                request.ext["_UNIQUE_KEY_QUERY"] = request.ext.pop("_UNIQUE_KEY_QUERX")
            else:
                request = signed(Frame(RequestCode.QUERY_MESSAGE, 1, ext=dict(flagged)), "the-reader")
            assert len(read_records((await peer.ok(request)).body)) == 1
            await check_refused(peer, signed(Frame(12, 1, ext=dict(flagged)), "the-writer"), f"topic {TOPIC}")


# ---------------------------------------------------------------------------------------------------------- groups


async def test_a_heartbeat_needs_every_group_and_topic_in_it() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        good = heartbeat_frame(subscription("*"), subscription("*", topic=retry_topic(GROUP)))
        await peer.ok(signed(good, "the-reader"))
        await peer.ok(
            signed(Frame(34, 1, body=b'{"clientID":"c","producerDataSet":[{"groupName":"p"}]}'), "the-nobody")
        )
        for frame, missing in (
            (heartbeat_frame(subscription("*", topic="Other")), "topic Other"),
            (heartbeat_frame(subscription("*"), group="others"), "group others"),
            (heartbeat_frame(subscription("*", topic=retry_topic("others"))), "group others"),
        ):
            await check_refused(peer, signed(frame, "the-reader"), missing)
        await check_refused(peer, signed(Frame(34, 1, body=b"{"), "the-reader"), "cannot be read")
        assert house.broker.tables.consumers.find("others") is None


def group_requests() -> dict[str, Frame]:
    lock = QueueLockRequest(client_id="c", consumer_group=GROUP)
    check = CheckClientRequest(client_id="c", group=GROUP, subscription_data=subscription("*"))
    both = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    return {
        "update offset": Frame(15, 1, ext={**both, "commitOffset": "0"}),
        "query offset": Frame(14, 1, ext=dict(both)),
        "members": Frame(38, 1, ext={"consumerGroup": GROUP}),
        "connections": Frame(203, 1, ext={"consumerGroup": GROUP}),
        "goodbye": Frame(35, 1, ext={"clientID": "c", "consumerGroup": GROUP}),
        "lock": Frame(41, 1, body=encode_body(lock)),
        "unlock": Frame(42, 1, body=encode_body(lock)),
        "check": Frame(46, 1, body=encode_body(check)),
        "progress": Frame(208, 1, ext={"consumerGroup": GROUP, "topic": TOPIC}),
        "time span": Frame(303, 1, ext={"group": GROUP, "topic": TOPIC}),
        "reset": Frame(222, 1, ext={"group": GROUP, "topic": TOPIC, "timestamp": "0", "isForce": "true"}),
        "status": Frame(223, 1, ext={"group": GROUP, "topic": TOPIC, "clientAddr": "none"}),
        "running info": Frame(307, 1, ext={"consumerGroup": GROUP, "clientId": "none"}),
        "clone": Frame(314, 1, ext={"srcGroup": GROUP, "destGroup": GROUP, "topic": TOPIC}),
        "cells": Frame(
            321, 1, ext={"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "index": "0", "count": "1"}
        ),
        "topics": Frame(343, 1, ext={"group": GROUP}),
        "subscription": Frame(345, 1, ext={"group": GROUP, "topic": TOPIC}),
        "settings": Frame(352, 1, ext={"group": GROUP}),
    }


@pytest.mark.parametrize("name", group_requests())
async def test_what_is_a_groups_own_is_for_its_members(name: str) -> None:
    frame = group_requests()[name]
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        await peer.ok(signed(heartbeat_frame(subscription("*")), "the-reader"))
        for account in ("the-writer", "the-nobody"):
            await check_refused(peer, signed(frame, account), "no permission")
        answer = await peer.ask(signed(frame, "the-reader"))
        assert "AclException" not in (answer.remark or "")


async def test_offsets_are_cloned_only_by_who_may_use_both_groups() -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        for groups in ({"srcGroup": GROUP, "destGroup": "others"}, {"srcGroup": "others", "destGroup": GROUP}):
            frame = Frame(RequestCode.CLONE_GROUP_OFFSET, 1, ext={**groups, "topic": TOPIC})
            await check_refused(peer, signed(frame, "the-reader"), "group others")


@pytest.mark.parametrize("code", [29, 30, 31, 32, 202, 300, 351])
async def test_the_bounds_of_a_topic_are_for_those_who_may_do_something_with_it(code: int) -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        frame = Frame(code, 1, ext={"topic": TOPIC, "queueId": "0", "timestamp": "0"})
        await check_refused(peer, signed(frame, "the-nobody"), f"topic {TOPIC}")
        for account in ("the-reader", "the-writer", "the-admin"):
            await peer.ok(signed(frame, account))


# --------------------------------------------------------------------------------------------------- administrators

ADMIN_CODES = [17, 21, 25, 26, 43, 45, 50, 51, 52, 53, 54, 200, 201, 204, 207, 215]
ADMIN_CODES += [306, 308, 309, 315, 316, 317, 323, 328, 329]


@pytest.mark.parametrize("code", ADMIN_CODES)
async def test_administration_is_for_administrators(code: int) -> None:
    async with guarded_house() as (_, peer):
        for account in ("the-writer", "the-reader", "the-nobody", "numeric1"):
            assert NEEDS[code].is_for_admins
            answer = await peer.ask(signed(Frame(code, 1, ext={}), account))
            if answer.code == 3:
                return  # not answered by this broker at all
            assert answer.code == 1
            assert "administrator" in (answer.remark or "")
        answer = await peer.ask(signed(Frame(code, 1, ext={}), "the-admin"))
        assert "AclException" not in (answer.remark or "")


async def test_a_request_that_nobody_thought_of_is_for_administrators() -> None:
    async with guarded_house() as (house, peer):
        house.broker.parts.main_dispatcher.register(9999, lambda frame, _: frame.reply())
        for account in ("the-writer", "the-reader", "the-nobody"):
            await check_refused(peer, signed(Frame(9999, 1, ext={}), account), "administrator")
        await peer.ok(signed(Frame(9999, 1, ext={}), "the-admin"))


# ------------------------------------------------------------------------------------------------------------ files


async def test_a_changed_file_is_taken_over_within_five_seconds() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        clock, disk = house.clock, house.disk
        assert isinstance(clock, ManualClock)
        await check_refused(peer, signed(send_frame(), "the-nobody"))
        text = ACL_FILE.replace("accessKey: the-nobody", f"accessKey: the-nobody\n    topicPerms: [{TOPIC}=PUB]")
        disk.replace(ACL_PATH, text.encode())
        await clock.advance(5.1)
        await until(lambda: "the-nobody" in accounts(house) and accounts(house)["the-nobody"].topics)
        await peer.ok(signed(send_frame(), "the-nobody"))
        disk.replace(ACL_PATH, b"accounts: [1]")
        await clock.advance(5.1)
        await peer.ok(signed(send_frame(), "the-nobody"))  # those of before stay
        disk.replace(ACL_PATH, b"")
        await clock.advance(5.1)
        await until(lambda: not accounts(house))
        await check_refused(peer, signed(send_frame(), "the-nobody"))


async def test_files_of_the_directory_beside_count_too() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        clock, disk = house.clock, house.disk
        assert isinstance(clock, ManualClock)
        directory = ACL_PATH.parent / "acl"
        disk.make_directories(directory / "team")
        account = "accounts:\n- {accessKey: team-writer, secretKey: team-secret, defaultTopicPerm: PUB}"
        disk.replace(directory / "team" / "more.yaml", account.encode())
        disk.replace(directory / "README.md", b"- no accounts")
        await clock.advance(5.1)
        await until(lambda: "team-writer" in accounts(house))
        await peer.ok(signed(send_frame(), "team-writer", secret="team-secret"))
        disk.unlink(directory / "team" / "more.yaml")
        await clock.advance(5.1)
        await until(lambda: "team-writer" not in accounts(house))
        await check_refused(peer, signed(send_frame(), "team-writer", secret="team-secret"))


def accounts(house: House) -> dict[str, Any]:
    access = house.broker.access
    assert access is not None
    return dict(access.book.table.accounts)


async def test_a_missing_file_is_made_and_lets_nobody_in() -> None:
    disk = FaultyDisk(directories=[ROOT])
    path = Path("/store/conf/plain_acl.yml")
    async with open_house(disk=disk, acl_enable=True) as house:
        peer = await house.connect()
        assert disk.read(path) == b""
        await check_refused(peer, send_frame())


async def test_no_log_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        await peer.ok(signed(send_frame(), "the-writer"))
        await check_refused(peer, signed(send_frame(), "the-nobody"))
        account = {"accessKey": "account-9", "secretKey": "a-new-secret", "defaultTopicPerm": "PUB"}
        await peer.ok(signed(Frame(50, 1, ext=dict(account)), "the-admin"))
        account["topicPerms"] = "wrong"
        await peer.refused(signed(Frame(50, 1, ext=dict(account)), "the-admin"))
        house.disk.replace(ACL_PATH, b"accounts:\n- {secretKey: broken-secret")
        assert isinstance(house.clock, ManualClock)
        await house.clock.advance(5.1)
    shown = "\n".join(json.dumps(vars(record), default=repr) for record in caplog.records)
    assert "the-nobody" in shown
    assert [secret for secret in (*SECRETS.values(), "a-new-secret", "broken-secret") if secret in shown] == []
