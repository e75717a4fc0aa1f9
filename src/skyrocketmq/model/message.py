"""A message, before and after: what a producer sends, and what is read back.

Rule 1: a `Message` that exists can be sent: what the protocol forbids is refused when it is made, with a text that
says what to change. Only limits that a client or broker configures (the largest body) are checked at the send.
Rule 2: a `MessageView` is believed as it was stored. It checks nothing, and no property can make it fail.
Rule 3: hot. A consumer makes a view of every message and reads the properties of some: a view that was made with their
        stored text (`bytes` in the place of the dict) decodes it when it is first asked, and keeps the dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, cast

import msgspec

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import TransactionType, transaction_type
from skyrocketmq.model.hosts import host_text
from skyrocketmq.model.names import check_send_topic
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.model.properties import decode_properties
from skyrocketmq.model.tables import MessageQueue


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """What a producer sends.

    >>> Message("TopicTest", b"hello", tags="TagA", keys=["order-1"]).keys
    ('order-1',)

    `keys` are what the message can be found by later: a list, or one text with blanks between them. `delay_level` is
    1 to 18 (1 s to 2 h with the broker's usual table), 0 for no delay. `system_properties` are reserved ones, set
    by the client library for replies and transactions; users leave it alone.
    """

    topic: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    delay_level: int
    flag: int
    wait_for_store: bool
    system_properties: Mapping[str, str]

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        flag: int = 0,
        wait_for_store: bool = True,
        system_properties: Mapping[str, str] | None = None,
    ) -> None:
        # Hot: a producer makes one for everything it sends, so what is left out costs next to nothing here.
        check_send_topic(topic)
        _put_topic(self, topic)
        _put_body(self, body if type(body) is bytes and body else _checked_body(body))
        _put_tags(self, _checked_text("tags", tags) if tags else None)
        _put_keys(self, () if keys == () else _checked_keys(keys))
        _put_properties(self, _checked_properties(properties) if properties else {})
        _put_delay_level(self, 0 if delay_level == 0 else _checked_number("the delay level", delay_level, smallest=0))
        _put_flag(self, 0 if flag == 0 else _checked_number("the flag", flag, smallest=-(2**31)))
        _put_wait_for_store(self, wait_for_store)
        _put_system_properties(self, dict(system_properties) if system_properties else {})

    def with_properties(self, added: Mapping[str, str]) -> Message:
        """The same message with these properties besides its own."""
        return replace(self, properties={**self.properties, **added})

    def with_system_properties(self, more: Mapping[str, str]) -> Message:
        """The same message with more of what the client library sets."""
        return replace(self, system_properties={**self.system_properties, **more})

    def all_properties(self) -> dict[str, str]:
        """Everything that travels as properties, as a new dict: the user's, the fields', the client's."""
        pairs = dict(self.properties)
        if self.keys:
            pairs[names.KEYS] = names.KEY_SEPARATOR.join(self.keys)
        pairs[names.WAIT] = "true" if self.wait_for_store else "false"
        if self.delay_level:
            pairs[names.DELAY] = str(self.delay_level)
        if self.tags:
            pairs[names.TAGS] = self.tags
        pairs.update(self.system_properties)
        return pairs


# What writes to the slots of a frozen dataclass, in a third less time than `object.__setattr__`.
(
    _put_topic,
    _put_body,
    _put_tags,
    _put_keys,
    _put_properties,
    _put_delay_level,
    _put_flag,
    _put_wait_for_store,
    _put_system_properties,
) = (cast(Callable[[Message, object], None], vars(Message)[field.name].__set__) for field in fields(Message))


class MessageView(msgspec.Struct, frozen=True, gc=False):  # no gc: it refers to nothing that could refer to it
    """A message as it was stored, with all that the record holds; times are milliseconds since 1970.

    `topic` is what the subscriber asked for, `queue` where the message lies: they differ for a message that comes
    back from a retry topic. `properties` are all of them, the reserved ones too; read them before `msgspec` is to
    encode a view, or to make a dict of it: until then it has their stored text.
    """

    topic: str
    body: bytes
    properties: dict[str, str]
    queue: MessageQueue
    queue_offset: QueueOffset
    log_offset: LogOffset
    born_timestamp: int
    born_host_packed: bytes
    store_timestamp: int
    store_host_packed: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: LogOffset = LogOffset(0)
    body_crc: int = 0  # of the body as it was stored, maybe compressed
    stored_bytes: int = 0  # length of the whole record

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageView):
            return NotImplemented
        # The comparison looks at what is held: on both sides it has to be the dict.
        return self.properties == other.properties and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # a dict is in it

    def __repr__(self) -> str:
        _decoded_properties(self)
        return super().__repr__()

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key for key in self.properties.get(names.KEYS, "").split(names.KEY_SEPARATOR) if key)

    @property
    def msg_id(self) -> str:
        """The unique id its producer gave it; the offset id where there is none."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """Where this copy is stored: the broker's address and the place in its commit log."""
        return (self.store_host_packed + self.log_offset.to_bytes(8, "big", signed=True)).hex().upper()

    @property
    def queue_id(self) -> int:
        return self.queue.queue_id

    @property
    def broker_name(self) -> str:
        """The broker it was read from; empty where the reader did not say."""
        return self.queue.broker_name

    @property
    def born_host(self) -> str:
        """Address of the producer, as the broker saw it."""
        return host_text(self.born_host_packed)

    @property
    def store_host(self) -> str:
        """Address of the broker that stored it."""
        return host_text(self.store_host_packed)

    @property
    def delay_level(self) -> int:
        return _number(self.properties.get(names.DELAY))

    @property
    def wait_for_store(self) -> bool:
        return self.properties.get(names.WAIT, "true").lower() == "true"

    @property
    def transaction_type(self) -> TransactionType:
        return transaction_type(self.sys_flag)

    @property
    def transaction_id(self) -> str | None:
        """The unique id, if the message is part of a transaction."""
        return self.properties.get(names.UNIQ_KEY) if self.properties.get(names.TRAN_MSG) == "true" else None

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties without those that Apache RocketMQ reserves."""
        return {name: value for name, value in self.properties.items() if name not in names.RESERVED}


_held_properties: Any = vars(MessageView)["properties"]  # the field as msgspec made it: the place in the struct
_get_held: Final[Callable[[MessageView], dict[str, str] | bytes]] = _held_properties.__get__
_put_held: Final[Callable[[MessageView, dict[str, str]], None]] = _held_properties.__set__


def _decoded_properties(view: MessageView) -> dict[str, str]:
    held = _get_held(view)
    if not isinstance(held, bytes):
        return held
    properties = decode_properties(held)
    _put_held(view, properties)
    return properties


MessageView.properties = property(_decoded_properties)  # type: ignore[assignment]


def _checked_body(body: object) -> bytes:
    if isinstance(body, str):
        raise IllegalArgument("the body is a text: encode it, for example with text.encode()")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise IllegalArgument(f"the body is of type {type(body).__name__}, it must be bytes")
    if not body:
        raise IllegalArgument(
            "the body is empty: send at least one byte, Apache's consumers fail on a message without any"
        )
    return bytes(body)


def _checked_text(what: str, text: object) -> str:
    if not isinstance(text, str):
        raise IllegalArgument(f"{what} {text!r} is of type {type(text).__name__}, it must be a text")
    if not text.strip():
        raise IllegalArgument(f"{what} {text!r} is blank")
    if "\x01" in text or "\x02" in text:
        raise IllegalArgument(f"{what} {text!r} contains \\x01 or \\x02, which separate properties on the wire")
    return text


def _checked_number(what: str, number: object, *, smallest: int) -> int:
    if not isinstance(number, int) or not smallest <= number < 2**31:
        raise IllegalArgument(f"{what} {number!r} is not a number from {smallest} to {2**31 - 1}")
    return number


def _checked_keys(keys: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        keys = [key for key in keys.split(names.KEY_SEPARATOR) if key]
    checked = tuple(_checked_text("the key", key) for key in keys)
    for key in checked:
        if names.KEY_SEPARATOR in key:
            raise IllegalArgument(
                f"the key {key!r} contains a blank, which separates keys: pass two keys or replace it"
            )
    return checked


def _checked_properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in properties.items():
        if name in names.RESERVED:
            raise IllegalArgument(f"the property name {name} is reserved: use another name, or the field for it")
        _checked_text("the property name", name)
        _checked_text(f"the value of the property {name}:", value)
    return dict(properties)


def _number(text: str | None) -> int:
    """A number that some producer wrote; 0 for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0
