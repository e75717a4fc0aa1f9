"""What a request was, for the log: its code, its peer, its topic and its group.

Called when a request has taken too long (`loop_watch`), with whatever a peer has sent: nothing here raises for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, decode_frame, split_frames

__all__ = ["buffer_cause", "code_name", "request_cause"]

FRAMES_LOOKED_AT_MAX: Final = 64
TEXT_CHARS_MAX: Final = 127  # as long as a topic's name may be
_TOPIC_FIELDS: Final = ("topic", "b")  # "b" and "a": of a send in the short form
_GROUP_FIELDS: Final = ("consumerGroup", "group", "groupName", "producerGroup", "a")


def request_cause(frame: Frame, peer: str) -> Mapping[str, object]:
    """The fields of a log line about one request."""
    fields: dict[str, object] = {"request": code_name(frame.code), "peer": peer}
    for name, keys in (("topic", _TOPIC_FIELDS), ("group", _GROUP_FIELDS)):
        text = next((frame.ext[key] for key in keys if frame.ext and frame.ext.get(key)), None)
        if text is not None:
            fields[name] = text[:TEXT_CHARS_MAX]
    return fields


def buffer_cause(data: bytes, peer: str) -> Mapping[str, object]:
    """The same about the requests of a received buffer: the most frequent code, and the first request that has it."""
    frames: list[Frame] = []
    try:
        places, _ = split_frames(data)
        frames.extend(decode_frame(data, *place) for place in places[:FRAMES_LOOKED_AT_MAX])
    except ProtocolError:
        pass  # its connection is closed for it; the frames before are named all the same
    if not frames:
        return {"request": "part of a frame", "peer": peer, "bytes": len(data)}
    code, _ = Counter(frame.code for frame in frames).most_common(1)[0]
    first = next(frame for frame in frames if frame.code == code)
    return {**request_cause(first, peer), "frames": len(places), "bytes": len(data)}


def code_name(code: int) -> str:
    """The name of a request code; the number of one that has none."""
    try:
        return RequestCode(code).name
    except ValueError:
        return str(code)
