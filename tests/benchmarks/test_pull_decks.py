"""The pulls and heartbeats of the load mean what they should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.broker_servers import Target
from benchmarks.decks import FIRST_OPAQUE
from benchmarks.pull_decks import Filled, Subscription, java_hash, pull_frame, pulls

from skyrocketmq.wire.frames import Encoding, Frame, FrameDecoder, encode_frame
from tests.benchmarks.answering import Serve

# The order of Java's hash map, in both encodings.
FIELDS = [
    *("queueId", "maxMsgNums", "sysFlag", "suspendTimeoutMillis", "commitOffset", "bname", "topic", "queueOffset"),
    *("expressionType", "subVersion", "consumerGroup"),
]


@pytest.mark.parametrize("binary", [False, True])
def test_a_pull_asks_for_32_messages_and_may_wait_if_told_so(binary: bool) -> None:
    frames = [
        pull_frame("G", "T", 64, opaque=7, binary=binary),
        pull_frame("G", "T", 64, opaque=8, binary=binary, may_suspend=True),
    ]

    now, later = FrameDecoder().feed(b"".join(frames))

    assert (now.code, now.opaque, now.encoding) == (11, 7, Encoding(binary))
    assert now.ext is not None
    assert later.ext is not None
    assert list(now.ext) == FIELDS
    assert (now.ext["queueOffset"], now.ext["maxMsgNums"]) == ("64", "32")
    assert (now.ext["sysFlag"], later.ext["sysFlag"]) == ("0", "2")


def test_a_group_says_what_it_wants_and_pulls_only_where_enough_follows(serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda _: encode_frame(Frame(0, opaque=1, flag=1)))
    target = Target("ours", "", server.address, 0, tmp_path)

    with pulls(target, Filled("T", 1024), tmp_path / "deck", wanted=Subscription("TagA", looked_at=4)) as deck:
        assert deck.frame_count == 6  # 128 messages are looked at for each, and 256 are left after the last place

    [beat] = FrameDecoder().feed(len(server.seen[0]).to_bytes(4, "big") + server.seen[0])
    [consumer] = json.loads(beat.body)["consumerDataSet"]
    [subscription] = consumer["subscriptionDataSet"]
    assert (subscription["topic"], subscription["subString"], subscription["tagsSet"]) == ("T", "TagA", ["TagA"])
    assert subscription["codeSet"] == [2598919]  # as "TagA".hashCode() in Java
    assert FIRST_OPAQUE.to_bytes(4, "big") not in deck.path.read_bytes()  # JSON


def test_hashes_are_javas() -> None:
    assert (java_hash("TagA"), java_hash("polygenelubricants")) == (2598919, -(1 << 31))
