"""REGISTER_BROKER bodies in their four forms."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.tables import DataVersion, TopicConfig, TopicFilterType
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import FULL_REGISTRATION_VERSION, VERSION_4_9_7
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.registration import (
    INFLATED_BYTES_MAX,
    RegisterBrokerBody,
    decode_registration,
    encode_registration,
)

REGISTERED = RegisterBrokerBody(
    topics=TopicConfigTable(
        data_version=DataVersion(timestamp=1_700_000_000_000, counter=3),
        topic_config_table={"T": TopicConfig("T", 4, 4, 6)},
    )
)
FULL = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"timestamp":1700000000000},'
    b'"topicConfigTable":{"T":{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
    b'"topicName":"T","topicSysFlag":0,"writeQueueNums":4}}}}'
)
INFLATED = (
    bytes.fromhex("00000027")
    + b'{"counter":3,"timestamp":1700000000000}'
    + bytes.fromhex("00000001 00000012")
    + b"T 4 4 6 SINGLE_TAG"
    + bytes.fromhex("00000002")
    + b"[]"
)


def decode_compressed(plain: bytes) -> RegisterBrokerBody:
    return decode_registration(zlib.compress(plain), version=VERSION_4_9_7, compressed=True)


def test_the_full_form_is_javas() -> None:
    assert encode_registration(REGISTERED) == FULL
    assert decode_registration(FULL, version=VERSION_4_9_7) == REGISTERED


def test_the_compressed_form_is_javas() -> None:
    assert zlib.decompress(encode_registration(REGISTERED, compressed=True)) == INFLATED
    assert decode_compressed(INFLATED) == REGISTERED


def test_the_compressed_form_loses_system_flag_and_order() -> None:
    topic = TopicConfig("T", 1, 2, 7, TopicFilterType.MULTI_TAG, topic_sys_flag=3, order=True)
    registered = RegisterBrokerBody(topics=TopicConfigTable(topic_config_table={"T": topic}))
    read = decode_registration(encode_registration(registered, compressed=True), version=VERSION_4_9_7, compressed=True)
    assert read.topics.topic_config_table["T"] == TopicConfig("T", 1, 2, 7, TopicFilterType.MULTI_TAG)


def test_a_broker_older_than_3_0_11_sends_the_topics_alone() -> None:
    version = FULL_REGISTRATION_VERSION - 1
    data = encode_registration(REGISTERED, version=version, compressed=True)
    assert data == FULL[FULL.index(b'{"dataVersion"') : -1]
    read = decode_registration(data, version=version, compressed=True)
    assert read.topics == REGISTERED.topics
    assert read.filter_server_list is None


@pytest.mark.parametrize("version", [1, VERSION_4_9_7])
@pytest.mark.parametrize("compressed", [False, True])
def test_no_body_means_no_topics_and_version_zero(version: int, compressed: bool) -> None:
    read = decode_registration(b"", version=version, compressed=compressed)
    assert read.topics == TopicConfigTable(data_version=DataVersion(0, 0), topic_config_table={})


def test_the_checksum_is_compared_unless_it_is_zero() -> None:
    assert decode_registration(FULL, version=VERSION_4_9_7, checksum=body_crc(FULL)) == REGISTERED
    assert decode_registration(FULL, version=VERSION_4_9_7, checksum=0) == REGISTERED
    with pytest.raises(ProtocolError, match="checksum"):
        decode_registration(FULL, version=VERSION_4_9_7, checksum=body_crc(FULL) ^ 1)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"T",
        b"T 4 4 6",
        b"T 4 4 6 SINGLE_TAG x",
        b"T 4 x 6 SINGLE_TAG",
        b"T 4 4 6 NO_TAG",
        b"T 4 4 9999999999 SINGLE_TAG",
    ],
)
def test_a_topic_without_exactly_five_good_fields_fails_the_whole(line: bytes) -> None:
    plain = INFLATED.replace(struct.pack(">i", 18) + b"T 4 4 6 SINGLE_TAG", struct.pack(">i", len(line)) + line)
    with pytest.raises(ProtocolError):
        decode_compressed(plain)


@pytest.mark.parametrize("topic_count", [-1, 0, 2, 2**31 - 1])
def test_a_wrong_topic_count_is_refused(topic_count: int) -> None:
    at = INFLATED.index(bytes.fromhex("00000001 00000012"))
    with pytest.raises(ProtocolError):
        decode_compressed(INFLATED[:at] + struct.pack(">i", topic_count) + INFLATED[at + 4 :])


@pytest.mark.parametrize("size", range(len(INFLATED)))
def test_a_body_cut_anywhere_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_compressed(INFLATED[:size])


@pytest.mark.parametrize("data", [b"x", zlib.compress(INFLATED)[:-5], FULL])
def test_what_is_not_deflated_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_registration(data, version=VERSION_4_9_7, compressed=True)


def test_a_body_that_grows_without_end_is_refused() -> None:
    packer = zlib.compressobj(9)
    mebibyte = bytes(1 << 20)
    bomb = b"".join([packer.compress(mebibyte) for _ in range((INFLATED_BYTES_MAX >> 20) + 1)]) + packer.flush()
    with pytest.raises(ProtocolError, match="limit"):
        decode_registration(bomb, version=VERSION_4_9_7, compressed=True)


TOPIC_NAMES = st.text("%|abcXYZ019_-", min_size=1, max_size=20)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
TOPICS = st.builds(TopicConfig, TOPIC_NAMES, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(TopicFilterType))


@given(st.lists(TOPICS, max_size=5), st.lists(TOPIC_NAMES, max_size=2), st.booleans())
def test_what_is_written_is_read_back(topics: list[TopicConfig], servers: list[str], compressed: bool) -> None:
    table = {topic.topic_name: topic for topic in topics}
    registered = RegisterBrokerBody(
        filter_server_list=servers, topics=TopicConfigTable(data_version=DataVersion(5, 6), topic_config_table=table)
    )
    data = encode_registration(registered, compressed=compressed)
    assert decode_registration(data, version=VERSION_4_9_7, compressed=compressed) == registered
