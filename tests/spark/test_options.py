"""Options: typed values, or an error that says what to write."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from skyrocketmq import MessageQueue
from skyrocketmq.client.outgoing import Compression
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import CompressionType
from skyrocketmq.spark.options import SinkOptions, SourceOptions
from skyrocketmq.spark.places import EARLIEST, LATEST, Places, offsets_from_json, offsets_to_json

BASE = {"namesrv": "one:9876;two:9876", "subscribe": "Orders, Bills"}
QUEUE = MessageQueue("Orders", "broker-a", 1)


def source(**options: str) -> SourceOptions:
    return SourceOptions.parse(BASE | options, is_stream=False)


def stream(**options: str) -> SourceOptions:
    return SourceOptions.parse(BASE | options, is_stream=True)


def test_what_is_not_said_has_the_family_of_sparks_defaults() -> None:
    options = source()
    assert options.name_servers == ("one:9876", "two:9876")
    assert options.topics == ("Orders", "Bills")
    assert (options.starting, options.ending) == (Places(everywhere=EARLIEST), Places(everywhere=LATEST))
    assert stream().starting == Places(everywhere=LATEST)
    assert options.pull.fail_on_data_loss
    assert options.pull.expression == "*"
    assert options.group == ""
    assert options.partitions_min is None


def test_every_option_is_understood_in_any_case() -> None:
    options = SourceOptions.parse(
        {
            "NAMESRV": "one:9876",
            "assign": '{"Orders": ["broker-a:1"]}',
            "startingoffsets": '{"Orders": {"broker-a:1": -2}}',
            "maxoffsetspertrigger": "100",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "2m",
            "maxBytesPerTrigger": "1000000",
            "minPartitions": "7",
            "failOnDataLoss": "False",
            "tags": "a || b",
            "group": "readers",
            "includeProperties": "false",
            "timeout": "1500ms",
            "retries": "3",
            "accessKey": "me",
            "secretKey": "hidden",
            "securityToken": "token",
            "tls": "true",
        },
        is_stream=True,
    )
    assert options.assigned == (QUEUE,)
    assert options.starting.by_queue == {QUEUE: EARLIEST}
    assert (options.offsets_per_trigger_max, options.offsets_per_trigger_min) == (100, 10)
    assert (options.trigger_delay_max_s, options.bytes_per_trigger_max, options.partitions_min) == (120, 1_000_000, 7)
    assert options.tags == ("a", "b")
    assert (options.pull.group, options.pull.expression, options.pull.is_sql) == ("readers", "a || b", False)
    assert (options.pull.fail_on_data_loss, options.pull.retry_count_max) == (False, 3)
    assert (options.link.timeout_s, options.link.access_key, options.link.security_token) == (1.5, "me", "token")
    assert options.link.tls is not None
    assert not options.with_properties
    assert "hidden" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_times_are_for_all_queues_or_for_each() -> None:
    assert source(startingTimestamp="1700000000000").starting.time_of(QUEUE) == 1_700_000_000_000
    options = source(endingTimestamp='{"Orders": {"broker-a:1": 5}}')
    assert options.ending.time_of(QUEUE) == 5
    assert source(sql="a > 3").pull.is_sql


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribePattern": "O.*"}, "exactly one of subscribe, .*subscribe and subscribePattern are given"),
        ({"subscribe": ""}, "exactly one of .*none is given"),
        ({"namesrv": ""}, "namesrv is missing"),
        ({"namesrv": " ; "}, "namesrv is ';': it names nothing"),
        ({"subscribe": ","}, "subscribe is ',': it names nothing"),
        ({"tags": "||"}, r"tags is '\|\|': it names nothing"),
        ({"startingOffset": "latest"}, "no option 'startingoffset': did you mean startingOffsets"),
        ({"colour": "red"}, "no option 'colour': there are: namesrv"),
        ({"startingOffsets": "yesterday"}, "startingOffsets is 'yesterday': earliest, latest or JSON such as"),
        ({"startingOffsets": '{"Orders": {"1": 4}}'}, "'1' is no queue: write broker:number"),
        ({"startingOffsets": '{"Orders": {"broker-a:1": -3}}'}, "has -3: a number from -2 on"),
        ({"startingOffsets": "{}"}, "names no queue"),
        ({"startingOffsets": "[]"}, "an object such as"),
        ({"startingTimestamp": "now"}, "milliseconds since 1970 or JSON"),
        ({"startingTimestamp": "5", "startingOffsets": "latest"}, "startingOffsets or startingTimestamp, not both"),
        (
            {"startingOffsets": '{"Orders": {"a:1": 7}}', "endingOffsets": '{"Orders": {"a:1": 6}}'},
            "nothing can be read of Orders@a:1: startingOffsets 7 comes after endingOffsets 6",
        ),
        (
            {"startingOffsets": "latest", "endingOffsets": "earliest"},
            "nothing can be read: startingOffsets latest comes after endingOffsets earliest",
        ),
        (
            {"startingOffsets": "latest", "endingOffsets": '{"Orders": {"a:1": -2}}'},
            "of Orders@a:1: startingOffsets latest comes after endingOffsets earliest",
        ),
        (
            {"startingTimestamp": "9", "endingTimestamp": "8"},
            "nothing can be read: startingTimestamp 9 comes after endingTimestamp 8",
        ),
        (
            {"startingTimestamp": "9", "endingTimestamp": '{"Orders": {"a:0": 9, "a:1": 3}}'},
            "nothing can be read of Orders@a:1: startingTimestamp 9 comes after endingTimestamp 3",
        ),
        ({"tags": "a", "sql": "b = 1"}, "tags or sql, not both"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger cannot be used here: limits belong to streams"),
        ({"minPartitions": "0"}, "minPartitions is '0': a number from 1 on"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe': true or false"),
        ({"timeout": "soon"}, "timeout is 'soon': a time is expected"),
        ({"timeout": "0s"}, "timeout is '0s': nothing is answered in no time"),
        ({"accessKey": "me"}, "accessKey and secretKey belong together"),
        ({"tlsTrustPath": "ca.pem"}, "tlsTrustPath cannot be used here: it needs tls=true"),
        ({"subscribe": "", "subscribePattern": "("}, "no regular expression"),
        ({"subscribe": "", "assign": "x"}, "assign is 'x': JSON such as"),
        ({"subscribe": "", "assign": '{"Orders": 3}'}, "a list of queues is expected"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(IllegalArgument, match=message):
        source(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": "latest", "endingOffsets": '{"Orders": {"a:1": 5}}'},  # who knows where it ends
        {"startingOffsets": '{"Orders": {"a:1": 5}}', "endingOffsets": '{"Orders": {"a:1": 5}}'},
        {"startingOffsets": '{"Orders": {"a:1": 5}}', "endingOffsets": '{"Orders": {"a:1": -2}}'},
        {"startingOffsets": '{"Orders": {"a:1": 5}}', "endingOffsets": '{"Orders": {"a:2": 3}}'},  # told later
        {"startingOffsets": '{"Orders": {"a:1": 5}}', "endingTimestamp": '{"Orders": {"a:1": 3}}'},
        {"startingOffsets": '{"Orders": {"a:1": 5}}', "endingTimestamp": "3"},
        {"startingTimestamp": "9"},
    ],
)
def test_a_range_that_may_be_empty_is_no_mistake(options: dict[str, str]) -> None:
    source(**options)


def test_a_stream_has_no_end_and_limits_that_fit() -> None:
    with pytest.raises(IllegalArgument, match="endingOffsets cannot be used here: a stream has no end"):
        stream(endingOffsets="latest")
    with pytest.raises(IllegalArgument, match="minOffsetsPerTrigger 9 is larger than maxOffsetsPerTrigger 5"):
        stream(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")


def test_the_sink_has_options_of_its_own() -> None:
    options = SinkOptions.parse({"namesrv": "one:9876", "topic": "Out", "window": "2", "batchBytes": "1000"})
    assert (options.topic, options.window, options.batch_bytes) == ("Out", 2, 1000)
    assert options.compression == Compression(4096, CompressionType.ZLIB, 5), "as the producer's"
    usual = SinkOptions.parse({"namesrv": "one:9876", "topic": "Out"})
    assert usual.compression == Compression(256 * 1024, CompressionType.ZLIB, 5), "what no batch takes"
    with pytest.raises(IllegalArgument, match="the sink has no option 'subscribe'"):
        SinkOptions.parse({"namesrv": "one:9876", "subscribe": "Out"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "gzip"}, "the compression 'gzip' is not known: use one of lz4, zstd, zlib"),
        ({"compressLevel": "10"}, "10 is not from 0 to 9, as ZLIB has"),
        ({"compressFromBytes": "4k"}, "compressFromBytes is '4k': a whole number is expected"),
        ({"compression": "none", "compressLevel": "3"}, "compressLevel cannot be used here: compression is none"),
    ],
)
def test_a_compression_that_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(IllegalArgument, match=message):
        SinkOptions.parse({"namesrv": "one:9876", "topic": "Out"} | options)


places = st.dictionaries(
    st.builds(MessageQueue, st.text(min_size=1), st.text(min_size=1), st.integers(0, 2**31 - 1)),
    st.integers(-2, 2**63 - 1),
    min_size=1,
)


@given(places)
def test_offsets_survive_the_way_through_json(offsets: dict[MessageQueue, int]) -> None:
    assert offsets_from_json(offsets_to_json(offsets)) == offsets


def test_places_for_each_queue_name_exactly_the_queues() -> None:
    other = MessageQueue("Orders", "broker-a", 2)
    Places(by_queue={QUEUE: 3}).check([QUEUE], option="startingOffsets")
    with pytest.raises(IllegalArgument, match="startingOffsets lacks queues Orders@broker-a:2"):
        Places(by_queue={QUEUE: 3}).check([QUEUE, other], option="startingOffsets")
    with pytest.raises(IllegalArgument, match="endingOffsets names unknown queues Orders@broker-a:2"):
        Places(by_queue={QUEUE: 3, other: 1}).check([QUEUE], option="endingOffsets")
