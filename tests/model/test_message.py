"""Messages before sending and after reading."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.flags import TransactionType
from skyrocketmq.model.message import Message, MessageView
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.model.properties import RESERVED
from skyrocketmq.model.tables import MessageQueue


def test_a_message_keeps_what_it_was_made_of() -> None:
    message = Message("TopicTest", b"hello", tags="TagA", keys=["order-1", "k2"], properties={"a": "1"}, delay_level=3)
    assert message.topic == "TopicTest"
    assert message.body == b"hello"
    assert message.tags == "TagA"
    assert message.keys == ("order-1", "k2")
    assert message.properties == {"a": "1"}
    assert message.delay_level == 3
    assert message.all_properties() == {
        "a": "1",
        "KEYS": "order-1 k2",
        "WAIT": "true",
        "DELAY": "3",
        "TAGS": "TagA",
    }


def test_a_plain_message_carries_only_that_it_waits_for_the_store() -> None:
    assert Message("T", b"x").all_properties() == {"WAIT": "true"}
    assert Message("T", b"x", wait_for_store=False).all_properties() == {"WAIT": "false"}


def test_keys_may_be_one_text_with_blanks() -> None:
    assert Message("T", b"x", keys="k1  k2").keys == ("k1", "k2")
    assert Message("T", b"x", keys="").keys == ()
    assert Message("T", b"x", keys=iter(["k"])).keys == ("k",)


def test_other_kinds_of_bytes_are_copied() -> None:
    data = bytearray(b"abc")
    message = Message("T", memoryview(data))
    data[0] = 0
    assert message.body == b"abc"
    assert type(message.body) is bytes


def test_the_properties_given_may_change_afterwards() -> None:
    given = {"a": "1"}
    message = Message("T", b"x", properties=given)
    given["a"] = "2"
    message.all_properties()["b"] = "3"
    assert message.properties == {"a": "1"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"topic": ""}, "no name"),
        ({"topic": "a b"}, "allowed are"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "broker only"),
        ({"body": b""}, "empty"),
        ({"body": "text"}, "encode it"),
        ({"body": None}, "NoneType"),
        ({"tags": " "}, "blank"),
        ({"tags": "a\x01b"}, "separate properties"),
        ({"tags": 5}, "must be a text"),
        ({"keys": ["a b"]}, "contains a blank"),
        ({"keys": [""]}, "blank"),
        ({"keys": ["a\x02"]}, "separate properties"),
        ({"keys": [7]}, "must be a text"),
        ({"properties": {"KEYS": "k"}}, "KEYS is reserved"),
        ({"properties": {"": "v"}}, "blank"),
        ({"properties": {"n": " "}}, "blank"),
        ({"properties": {"n": "\x02"}}, "separate properties"),
        ({"properties": {"n": 1}}, "must be a text"),
        ({"delay_level": -1}, "from 0"),
        ({"delay_level": "3"}, "not a number"),
        ({"flag": 2**31}, "not a number"),
    ],
)
def test_what_could_not_be_sent_cannot_be_made(arguments: dict[str, Any], reason: str) -> None:
    complete: dict[str, Any] = {"topic": "T", "body": b"x", **arguments}
    with pytest.raises(IllegalArgument, match=reason):
        Message(**complete)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_properties_are_for_the_client_only(name: str) -> None:
    with pytest.raises(IllegalArgument, match="reserved"):
        Message("T", b"x", properties={name: "v"})
    assert Message("T", b"x", system_properties={name: "v"}).all_properties()[name] == "v"


def test_a_message_can_be_copied_changed_and_pickled() -> None:
    message = Message("T", b"x", tags="A", keys=["k"], properties={"a": "1"})
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message
    assert replace(message, topic="U") == Message("U", b"x", tags="A", keys=["k"], properties={"a": "1"})
    with pytest.raises(IllegalArgument):
        replace(message, body=b"")


def view(**changes: Any) -> MessageView:
    fields: dict[str, Any] = {
        "topic": "TopicTest",
        "body": b"hello",
        "properties": {"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "0A0000012345", "DELAY": "3", "mine": "1"},
        "queue": MessageQueue("TopicTest", "broker-a", 2),
        "queue_offset": QueueOffset(7),
        "log_offset": LogOffset(4096),
        "born_timestamp": 1,
        "born_host_packed": bytes.fromhex("0a0000010000c350"),
        "store_timestamp": 2,
        "store_host_packed": bytes.fromhex("0a00000200002a9f"),
    }
    return MessageView(**(fields | changes))


def test_a_stored_message_shows_its_fields() -> None:
    message = view()
    assert message.tags == "TagA"
    assert message.keys == ("k1", "k2")
    assert message.msg_id == "0A0000012345"
    assert message.offset_msg_id == "0A00000200002A9F0000000000001000"
    assert message.queue_id == 2
    assert message.broker_name == "broker-a"
    assert message.born_host == "10.0.0.1:50000"
    assert message.store_host == "10.0.0.2:10911"
    assert message.delay_level == 3
    assert message.wait_for_store
    assert message.user_properties == {"mine": "1"}


STORED = b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02UNIQ_KEY\x010A0000012345\x02DELAY\x013\x02mine\x011"


def test_properties_in_their_stored_form_are_read_when_asked_for_and_kept() -> None:
    message = view(properties=STORED)
    assert message.properties == view().properties
    assert message.properties is message.properties
    assert message.tags == "TagA"
    with pytest.raises(AttributeError):
        message.properties = {}  # type: ignore[misc]


def test_a_message_is_the_same_whichever_form_its_properties_have() -> None:
    assert view(properties=STORED) == view()
    assert view() == view(properties=STORED)
    assert view(properties=STORED) == view(properties=STORED)
    assert view(properties=STORED) != view(properties=STORED + b"2")
    assert view(properties=STORED) != view(topic="Other")
    assert view(properties=STORED) != "hello"
    assert repr(view(properties=STORED)) == repr(view())
    with pytest.raises(TypeError, match="unhashable"):
        hash(view(properties=STORED))


@pytest.mark.parametrize("is_read", [False, True])
def test_a_stored_message_can_be_copied_changed_and_pickled(is_read: bool) -> None:
    message = view(properties=STORED)
    if is_read:
        assert message.tags == "TagA"
    assert pickle.loads(pickle.dumps(message)) == view()
    assert copy.copy(message) == view()
    assert copy.deepcopy(message) == view()
    assert msgspec.structs.replace(message, topic="Other") == view(topic="Other")
    assert msgspec.structs.replace(message, topic="Other").keys == ("k1", "k2")


def test_a_stored_message_is_encoded_with_its_properties_once_they_were_read() -> None:
    message = view(properties=STORED)
    assert message.properties
    assert msgspec.structs.asdict(message) == msgspec.structs.asdict(view())
    assert msgspec.json.encode(message) == msgspec.json.encode(view())


def test_a_message_without_properties_has_the_offset_id() -> None:
    message = view(properties={})
    assert message.msg_id == message.offset_msg_id
    assert message.tags is None
    assert message.keys == ()
    assert message.delay_level == 0
    assert message.transaction_id is None


@pytest.mark.parametrize("text", ["x", "-1", "", "٣", "9" * 5000])
def test_no_property_can_make_a_stored_message_fail(text: str) -> None:
    assert view(properties={"DELAY": text}).delay_level == 0


def test_a_message_of_a_transaction_knows_it() -> None:
    message = view(sys_flag=8, properties={"TRAN_MSG": "true", "UNIQ_KEY": "U"})
    assert message.transaction_type is TransactionType.COMMIT
    assert message.transaction_id == "U"
