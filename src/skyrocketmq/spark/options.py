"""The options of source and sink: texts in, typed values out.

Names are those of Spark's Kafka source wherever it has the option, and are compared without their case, as Spark does.
An unknown name, a value that cannot be read and two options that contradict each other are errors that say what to
write instead.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from skyrocketmq.client.outgoing import Compression
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import CompressionType, MessageQueue
from skyrocketmq.model.properties import KEY_SEPARATOR
from skyrocketmq.net import ClientTls
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.spark.places import EARLIEST, LATEST, Places, check_order, offsets_from_json, queues_from_json
from skyrocketmq.spark.pulling import PullOptions
from skyrocketmq.wire.compression import COMPRESS_FROM_BYTES, COMPRESS_LEVEL

__all__ = ["SinkOptions", "SourceOptions", "Texts"]

T = TypeVar("T")

_LINK: Final = (
    "namesrv",
    "timeout",
    "retries",
    "accessKey",
    "secretKey",
    "securityToken",
    "tls",
    "tlsVerify",
    "tlsCheckHostname",
    "tlsTrustPath",
    "tlsCertificatePath",
    "tlsKeyPath",
    "tlsKeyPassword",
)
_CHOICES: Final = ("subscribe", "subscribePattern", "assign")
_SOURCE: Final = (
    *_LINK,
    *_CHOICES,
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "tags",
    "sql",
    "keys",
    "group",
    "includeProperties",
)
_SINK: Final = (
    *_LINK,
    "topic",
    "group",
    "batchBytes",
    "compressFromBytes",
    "compression",
    "compressLevel",
    "window",
    "ratePerTask",
    "mode",
    "idColumns",
    "sinkId",
    "sinkEpoch",
)
# What Spark itself adds to the options of a query.
_OF_SPARK: Final = {"path", "checkpointlocation", "querystagename", "queryname"}

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 0.001}
DEFAULT_GROUP: Final = "skyrocketmq-spark"


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What to read, from where to where, and how. Travels to the tasks."""

    name_servers: tuple[str, ...]
    link: LinkSettings
    pull: PullOptions
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    assigned: tuple[MessageQueue, ...] = ()
    starting: Places
    ending: Places
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_s: float = 900.0
    bytes_per_trigger_max: int | None = None
    partitions_min: int | None = None
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # looked up in the index; none: everything is read
    group: str = ""  # whose progress is shown; empty: nobody's
    with_properties: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
        """Raises `IllegalArgument`."""
        texts = Texts(options, _SOURCE, "source")
        chosen = [name for name in _CHOICES if texts.find(name)]
        if len(chosen) != 1:
            said = f"{' and '.join(chosen)} are" if chosen else "none is"
            raise IllegalArgument(f"give exactly one of subscribe, subscribePattern and assign: {said} given")
        if is_stream:
            texts.forbid("a stream has no end", "endingOffsets", "endingTimestamp")
            texts.forbid("an index knows what was; filter a stream by array_contains(keys, ...)", "keys")
        else:
            texts.forbid(
                "limits belong to streams", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"
            )
        texts.forbid_both("tags", "sql")
        texts.forbid_both("keys", "sql")
        largest, smallest = texts.count("maxOffsetsPerTrigger"), texts.count("minOffsetsPerTrigger")
        if largest is not None and smallest is not None and smallest > largest:
            raise IllegalArgument(f"minOffsetsPerTrigger {smallest} is larger than maxOffsetsPerTrigger {largest}")
        topic_pattern = texts.read("subscribePattern", _pattern, "")
        tags: tuple[str, ...] = texts.read("tags", _tags, ())
        starting, ending = texts.places("starting", LATEST if is_stream else EARLIEST), texts.places("ending", LATEST)
        check_order(starting, ending)
        return cls(
            name_servers=texts.name_servers(),
            link=texts.link(),
            pull=PullOptions(
                group=texts.find("group") or DEFAULT_GROUP,
                expression=texts.find("sql") or " || ".join(tags) or "*",
                is_sql=texts.find("sql") is not None,
                fail_on_data_loss=texts.flag("failOnDataLoss", True),
                retry_count_max=texts.read("retries", _whole, 10),
            ),
            topics=texts.read("subscribe", _names, ()),
            topic_pattern=topic_pattern,
            assigned=texts.read("assign", queues_from_json, ()),
            starting=starting,
            ending=ending,
            offsets_per_trigger_max=largest,
            offsets_per_trigger_min=smallest,
            trigger_delay_max_s=texts.read("maxTriggerDelay", _seconds, 900.0),
            bytes_per_trigger_max=texts.count("maxBytesPerTrigger"),
            partitions_min=texts.count("minPartitions"),
            tags=tags,
            keys=texts.read("keys", _keys, ()),
            group=texts.find("group") or "",
            with_properties=texts.flag("includeProperties", True),
        )


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Where rows go, and how. Travels to the tasks."""

    name_servers: tuple[str, ...]
    link: LinkSettings
    topic: str = ""  # empty: a column says it
    group: str = DEFAULT_GROUP
    retry_count_max: int = 10
    batch_bytes: int = 256 * 1024
    compression: Compression | None = None  # none: bodies travel as they are
    window: int = 8  # requests under way
    is_once: bool = False  # mode=effectively-once
    id_columns: tuple[str, ...] = ()
    sink_id: str = ""
    epoch: int | None = None  # of a batch write that is one of a series
    rate_per_task: float | None = None  # messages a second

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Raises `IllegalArgument`."""
        texts = Texts(options, _SINK, "sink")
        mode = texts.find("mode") or "at-least-once"
        if mode not in ("at-least-once", "effectively-once"):
            raise IllegalArgument(f"mode is {mode!r}: it can be at-least-once or effectively-once")
        is_once = mode == "effectively-once"
        # A query is known by the place of its checkpoint: it is the same after a restart.
        sink_id = texts.find("sinkId") or options.get("checkpointLocation") or ""
        if is_once and not sink_id:
            raise IllegalArgument(
                "mode=effectively-once needs a name for this write that is the same when it is repeated: "
                "set checkpointLocation (streams) or sinkId"
            )
        if is_once and not texts.find("topic"):
            raise IllegalArgument("mode=effectively-once needs the option topic: a column cannot name the topics")
        if not is_once:
            texts.forbid("they belong to mode=effectively-once", "idColumns", "sinkId", "sinkEpoch")
        batch_bytes = texts.count("batchBytes") or 256 * 1024
        return cls(
            name_servers=texts.name_servers(),
            link=texts.link(),
            topic=texts.find("topic") or "",
            group=texts.find("group") or DEFAULT_GROUP,
            retry_count_max=texts.read("retries", _whole, 10),
            batch_bytes=batch_bytes,
            compression=_compression(texts, batch_bytes),
            window=texts.count("window") or 8,
            is_once=is_once,
            id_columns=texts.read("idColumns", _names, ()),
            sink_id=sink_id,
            epoch=texts.read("sinkEpoch", _whole, None),
            rate_per_task=texts.read("ratePerTask", _rate, None),
        )


def _compression(texts: Texts, batch_bytes: int) -> Compression | None:
    """Which bodies are compressed, and how: as the producer does it, but only those that no batch would take.

    A compressed body travels alone. Of rows that might have gone by the hundred, that would be the larger cost.
    """
    kind = texts.find("compression") or CompressionType.ZLIB.name
    if kind.lower() == "none":
        texts.forbid("compression is none", "compressFromBytes", "compressLevel")
        return None
    return Compression.checked(
        texts.read("compressFromBytes", _whole, max(batch_bytes, COMPRESS_FROM_BYTES)),
        kind,
        texts.read("compressLevel", _whole, COMPRESS_LEVEL),
    )


class Texts:
    """Options as Spark gives them, of which all names are known."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
        self._texts = {name.lower(): value.strip() for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._texts:
            if name not in names and name not in _OF_SPARK:
                close = difflib.get_close_matches(name, names, 1)
                hint = f"did you mean {names[close[0]]}?" if close else f"there are: {', '.join(known)}"
                raise IllegalArgument(f"the {what} has no option {name!r}: {hint}")

    def find(self, name: str) -> str | None:
        return self._texts.get(name.lower()) or None

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.find(name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise IllegalArgument(f"option {name} is {text!r}: {error}") from error

    def count(self, name: str) -> int | None:
        return self.read(name, _positive, None)

    def flag(self, name: str, default: bool) -> bool:
        return self.read(name, _flag, default)

    def forbid(self, reason: str, *names: str) -> None:
        for name in names:
            if self.find(name) is not None:
                raise IllegalArgument(f"option {name} cannot be used here: {reason}")

    def forbid_both(self, one: str, other: str) -> None:
        if self.find(one) is not None and self.find(other) is not None:
            raise IllegalArgument(f"give {one} or {other}, not both")

    def places(self, side: str, default: int) -> Places:
        """`startingOffsets` and `startingTimestamp`, or the same of the end."""
        offsets, times = f"{side}Offsets", f"{side}Timestamp"
        self.forbid_both(offsets, times)
        if self.find(times) is not None:
            return self.read(times, _times, Places())
        return self.read(offsets, _offsets, Places(everywhere=default))

    def name_servers(self) -> tuple[str, ...]:
        if self.find("namesrv") is None:
            raise IllegalArgument(
                "option namesrv is missing: the addresses of the name servers, as host:port;host:port"
            )
        return self.read("namesrv", lambda given: _parts(given, "[,;]"), ())

    def link(self) -> LinkSettings:
        if (self.find("accessKey") is None) != (self.find("secretKey") is None):
            raise IllegalArgument("accessKey and secretKey belong together: one of them is missing")
        return LinkSettings(
            timeout_s=self.read("timeout", _some_seconds, 30.0),
            access_key=self.find("accessKey") or "",
            secret_key=self.find("secretKey") or "",
            security_token=self.find("securityToken"),
            tls=self._tls(),
        )

    def _tls(self) -> ClientTls | None:
        if not self.flag("tls", False):
            self.forbid(
                "it needs tls=true", "tlsVerify", "tlsCheckHostname", "tlsTrustPath", "tlsCertificatePath", "tlsKeyPath"
            )
            return None
        trust, certificate, key = (
            self.read(name, Path, None) for name in ("tlsTrustPath", "tlsCertificatePath", "tlsKeyPath")
        )
        return ClientTls(
            verify=self.flag("tlsVerify", True),
            check_hostname=self.flag("tlsCheckHostname", True),
            trust_path=trust,
            certificate_path=certificate,
            key_path=key,
            key_password=self.find("tlsKeyPassword"),
        )


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("a whole number is expected")
    return int(text)


def _positive(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise ValueError("a number from 1 on is expected")
    return number


def _rate(text: str) -> float:
    if not re.fullmatch(r"\d+(?:\.\d+)?", text) or not float(text):
        raise ValueError("messages a second are expected, a number above 0")
    return float(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false is expected")
    return text.lower() == "true"


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text)
    if match is None:
        raise ValueError("a time is expected, as 30s, 15m or 500ms")
    return float(match[1]) * _SECONDS[match[2]]


def _some_seconds(text: str) -> float:
    if not (seconds := _seconds(text)):
        raise ValueError("nothing is answered in no time: a time such as 30s is expected")
    return seconds


def _names(text: str) -> tuple[str, ...]:
    return _parts(text, ",")


def _parts(text: str, separator: str) -> tuple[str, ...]:
    """What stands between separators, each once. Nothing at all is a mistake: it would mean no rows, or all."""
    found = tuple(dict.fromkeys(part.strip() for part in re.split(separator, text) if part.strip()))
    if not found:
        raise ValueError("it names nothing")
    return found


def _tags(text: str) -> tuple[str, ...]:
    if text == "*":
        return ()
    return _parts(text, r"\|\||,")


def _keys(text: str) -> tuple[str, ...]:
    """Keys hold no blanks, but may hold commas: then they are written as JSON."""
    keys = _json(text, "keys with commas between them, or a JSON list", '["a", "b"]') if text.startswith("[") else None
    if keys is None:
        keys = [part for part in re.split(r"[,\s]+", text) if part]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError('a list of texts such as ["a", "b"] is expected')
    if not keys or any(not key or KEY_SEPARATOR in key for key in keys):
        raise ValueError("keys are texts without blanks")
    return tuple(dict.fromkeys(keys))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from error
    return text


def _offsets(text: str) -> Places:
    if text.lower() == "earliest":
        return Places(everywhere=EARLIEST)
    if text.lower() == "latest":
        return Places(everywhere=LATEST)
    return Places(by_queue=offsets_from_json(_json(text, "earliest, latest or JSON")))


def _times(text: str) -> Places:
    if text.isdecimal():
        return Places(time_ms=int(text))
    return Places(time_ms_by_queue=offsets_from_json(_json(text, "milliseconds since 1970 or JSON"), smallest=0))


def _json(text: str, expected: str, example: str = '{"Orders": {"broker-a:0": 23}}') -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{expected} such as {example} is expected ({error})") from error
