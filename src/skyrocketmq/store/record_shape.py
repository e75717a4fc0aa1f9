r"""What messages with the same topic and properties share, worked out once.

A producer sends thousands of messages whose properties differ in nothing but the unique id. Of such a message a record
is put together from pieces that exist already:

    | head, 88 bytes, packed | body | middle: topic and the properties before the id | the id | tail: those after it |

A hot module's data: attributes are read at every append. Rule 1: a shape is what the store writes; the broker has
added and removed properties before. Rule 2: a shape that breaks a limit exists too and knows its refusal, so that
whoever keeps shapes keeps the bad ones like the good.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.model import properties as names
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.statuses import PutStatus, Refusal
from skyrocketmq.wire.java import string_hash
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX, split_properties
from skyrocketmq.wire.records import RECORD_BYTES_MIN, TOPIC_BYTES_MAX

__all__ = ["KEYS_MAX", "UNIQ_MARK", "RecordShape", "split_unique_key", "tags_code_of"]

UNKNOWN_LEVEL_MS: Final = 1000
KEYS_MAX: Final = 1_024  # of one message that is sent; each takes some microseconds and 20 bytes of the index
_UNIQ_KEY: Final = names.UNIQ_KEY.encode()
_TAGS: Final = names.TAGS.encode()
_KEYS: Final = names.KEYS.encode()
_DELAY: Final = names.DELAY.encode()
UNIQ_MARK: Final = _UNIQ_KEY + b"\x01"


class RecordShape:
    """The constant pieces of a record. `delay_ms` is set for messages that wait in the schedule topic."""

    __slots__ = (
        "after",
        "before",
        "delay_ms",
        "fixed_bytes",
        "has_nul",
        "is_special",
        "keys",
        "middle",
        "refusal",
        "tags_code",
        "topic",
    )

    def __init__(
        self, topic: TopicKeys, before: bytes, key: bytes, after: bytes, *, delay_levels_ms: tuple[int, ...] = ()
    ) -> None:
        """`before`, `key` and `after` make up the properties; `key` is the unique id, empty where there is none.

        The shape then serves all ids of the same length that stand at the same place.
        """
        properties_bytes = len(before) + len(key) + len(after)
        pairs = split_properties(b"%b%b%b" % (before, key, after))
        topic_bytes = topic.topic.encode()
        self.topic = topic
        self.before = before
        self.after = after
        self.keys = _other_keys(pairs, has_unique_key=bool(key))
        self.refusal = _refusal(topic_bytes, properties_bytes, len(self.keys))
        self.middle = b""
        if self.refusal is None:
            self.middle = b"%c%b%b%b" % (len(topic_bytes), topic_bytes, properties_bytes.to_bytes(2, "big"), before)
        self.fixed_bytes = RECORD_BYTES_MIN + len(topic_bytes) + properties_bytes
        self.delay_ms = _delay_ms(topic.topic, pairs, delay_levels_ms)
        self.tags_code = tags_code_of(pairs)
        # Such a record needs a voucher, be there a zero in the unique id or in anything else that has no checksum.
        self.has_nul = b"\0" in before or b"\0" in after or b"\0" in topic_bytes
        self.is_special = self.has_nul or self.refusal is not None or self.delay_ms is not None

    @classmethod
    def of(
        cls, topic: TopicKeys, properties: bytes, *, delay_levels_ms: tuple[int, ...] = ()
    ) -> tuple[RecordShape, bytes]:
        """The shape of these properties, and the unique id that goes with it."""
        before, key, after = split_unique_key(properties)
        return cls(topic, before, key, after, delay_levels_ms=delay_levels_ms), key


def split_unique_key(properties: bytes) -> tuple[bytes, bytes, bytes]:
    """The properties before the value of UNIQ_KEY, the value, and the properties after it; the value may be empty."""
    if properties.startswith(UNIQ_MARK):
        start = len(UNIQ_MARK)
    else:
        at = properties.find(b"\x02" + UNIQ_MARK)
        if at < 0:
            return properties, b"", b""
        start = at + 1 + len(UNIQ_MARK)
    end = properties.find(b"\x02", start)
    if end < 0:
        end = len(properties)
    if properties.find(b"\x02" + UNIQ_MARK, end) >= 0:
        return properties, b"", b""  # the last of several counts, and nobody sends several: take the general way
    return properties[:start], properties[start:end], properties[end:]


def tags_code_of(pairs: dict[bytes, bytes]) -> int:
    """What a consume queue keeps of the tags: Java's hash, 0 for none."""
    tags = pairs.get(_TAGS)
    return string_hash(tags) if tags else 0


def _refusal(topic: bytes, properties_bytes: int, key_count: int) -> Refusal | None:
    if not 0 < len(topic) <= TOPIC_BYTES_MAX:
        return Refusal(
            PutStatus.MESSAGE_ILLEGAL, f"the topic takes {len(topic)} bytes, allowed are 1 to {TOPIC_BYTES_MAX}"
        )
    if properties_bytes > PROPERTIES_BYTES_MAX:
        return Refusal(
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            f"the properties take {properties_bytes} bytes with the broker's own, allowed are {PROPERTIES_BYTES_MAX}",
        )
    if key_count > KEYS_MAX:
        return Refusal(
            PutStatus.MESSAGE_ILLEGAL, f"the message has {key_count} keys, allowed are {KEYS_MAX}: each is indexed"
        )
    return None


def _delay_ms(topic: str, pairs: dict[bytes, bytes], levels_ms: tuple[int, ...]) -> int | None:
    """How long the message waits in the schedule topic, whose queues keep the time of delivery instead of the tags."""
    if topic != SCHEDULE_TOPIC or _DELAY not in pairs:
        return None
    text = pairs[_DELAY]
    level = int(text) if text.isdigit() else 0
    if level <= 0:
        return None
    return levels_ms[min(level, len(levels_ms)) - 1] if levels_ms else UNKNOWN_LEVEL_MS


def _other_keys(pairs: dict[bytes, bytes], *, has_unique_key: bool) -> tuple[bytes, ...]:
    """The keys to index besides the unique id that the shape leaves open."""
    keys = tuple(key for key in pairs.get(_KEYS, b"").split(b" ") if key)
    if not has_unique_key and _UNIQ_KEY in pairs:
        return (pairs[_UNIQ_KEY], *keys)
    return keys
