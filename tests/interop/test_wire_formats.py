"""Our headers, bodies and frames beside Apache's classes: names, types and texts are the same."""

from __future__ import annotations

import subprocess
from base64 import b64decode
from collections.abc import Iterator

import msgspec
import pytest

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import MessageQueue, TopicConfig
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_clients import ConsumerStatus, ResetOffsets
from skyrocketmq.wire.frames import OPAQUE_MISSING, Encoding, Frame, FrameDecoder, encode_frame
from skyrocketmq.wire.json_dialect import write_pretty
from tests.interop.apache import Apache
from tests.wire.test_bodies import EXAMPLES
from tests.wire.test_frames import json_frame
from tests.wire.test_headers import ANSWERS, REQUESTS

pytestmark = pytest.mark.interop

COMMON = "org.apache.rocketmq.common"
BODY = f"{COMMON}.protocol.body"
HEADER = f"{COMMON}.protocol.header"

# Where an example's name is not the class's: the rest of the names, and packages other than that of bodies.
BODY_CLASSES = {
    "DataVersion": f"{COMMON}.DataVersion",
    "TopicConfig": f"{COMMON}.TopicConfig",
    "AclConfig": f"{COMMON}.AclConfig",
    "SubscriptionGroupConfig": f"{COMMON}.subscription.SubscriptionGroupConfig",
    "MessageQueue": f"{COMMON}.message.MessageQueue",
    "TopicStatsTable": f"{COMMON}.admin.TopicStatsTable",
    "ConsumeStats": f"{COMMON}.admin.ConsumeStats",
    "OffsetMovedEvent": f"{COMMON}.protocol.topic.OffsetMovedEvent",
    "HeartbeatData": f"{COMMON}.protocol.heartbeat.HeartbeatData",
    "GetConsumerListByGroupResponseBody": f"{HEADER}.GetConsumerListByGroupResponseBody",
    "TopicList without address": f"{BODY}.TopicList",
    "ResetOffsetBody for C++": f"{BODY}.ResetOffsetBodyForC",
    "GetConsumerStatusBody from a client": f"{BODY}.GetConsumerStatusBody",
    "GetConsumerStatusBody from a broker": f"{BODY}.GetConsumerStatusBody",
    "consumer offsets": f"{BODY}.ConsumerOffsetSerializeWrapper",
    "correction offsets": f"{BODY}.QueryCorrectionOffsetBody",
    "delay offsets": "org.apache.rocketmq.store.schedule.DelayOffsetSerializeWrapper",
}

OUR_OWN = {"anyRecord B"}  # fields that Java does not know, and passes over
REQUEST_CLASSES = {
    10: "SendMessageRequestHeader",
    11: "PullMessageRequestHeader",
    14: "QueryConsumerOffsetRequestHeader",
    15: "UpdateConsumerOffsetRequestHeader",
    29: "SearchOffsetRequestHeader",
    30: "GetMaxOffsetRequestHeader",
    31: "GetMinOffsetRequestHeader",
    32: "GetEarliestMsgStoretimeRequestHeader",
    33: "ViewMessageRequestHeader",
    35: "UnregisterClientRequestHeader",
    36: "ConsumerSendMsgBackRequestHeader",
    37: "EndTransactionRequestHeader",
    38: "GetConsumerListByGroupRequestHeader",
    39: "CheckTransactionStateRequestHeader",
    40: "NotifyConsumerIdsChangedRequestHeader",
    50: "CreateAccessConfigRequestHeader",
    51: "DeleteAccessConfigRequestHeader",
    53: "UpdateGlobalWhiteAddrsConfigRequestHeader",
    100: "namesrv.PutKVConfigRequestHeader",
    101: "namesrv.GetKVConfigRequestHeader",
    102: "namesrv.DeleteKVConfigRequestHeader",
    103: "namesrv.RegisterBrokerRequestHeader",
    104: "namesrv.UnRegisterBrokerRequestHeader",
    105: "namesrv.GetRouteInfoRequestHeader",
    202: "GetTopicStatsInfoRequestHeader",
    203: "GetConsumerConnectionListRequestHeader",
    204: "GetProducerConnectionListRequestHeader",
    205: "namesrv.WipeWritePermOfBrokerRequestHeader",
    207: "DeleteSubscriptionGroupRequestHeader",
    208: "GetConsumeStatsRequestHeader",
    215: "DeleteTopicRequestHeader",
    216: "namesrv.DeleteTopicFromNamesrvRequestHeader",
    219: "namesrv.GetKVListByNamespaceRequestHeader",
    220: "ResetOffsetRequestHeader",
    221: "GetConsumerStatusRequestHeader",
    224: "GetTopicsByClusterRequestHeader",
    300: "QueryTopicConsumeByWhoRequestHeader",
    303: "QueryConsumeTimeSpanRequestHeader",
    307: "GetConsumerRunningInfoRequestHeader",
    308: "QueryCorrectionOffsetHeader",
    309: "ConsumeMessageDirectlyResultRequestHeader",
    314: "CloneGroupOffsetRequestHeader",
    315: "ViewBrokerStatsDataRequestHeader",
    317: "GetConsumeStatsInBrokerHeader",
    321: "QueryConsumeQueueRequestHeader",
    322: "namesrv.QueryDataVersionRequestHeader",
    323: "ResumeCheckHalfMessageRequestHeader",
    326: "ReplyMessageRequestHeader",
    327: "namesrv.AddWritePermOfBrokerRequestHeader",
}
ANSWER_CLASSES = {
    11: "PullMessageResponseHeader",
    12: "QueryMessageResponseHeader",
    14: "QueryConsumerOffsetResponseHeader",
    26: "GetBrokerConfigResponseHeader",
    29: "SearchOffsetResponseHeader",
    30: "GetMaxOffsetResponseHeader",
    31: "GetMinOffsetResponseHeader",
    32: "GetEarliestMsgStoretimeResponseHeader",
    52: "GetBrokerAclConfigResponseHeader",
    101: "namesrv.GetKVConfigResponseHeader",
    103: "namesrv.RegisterBrokerResponseHeader",
    205: "namesrv.WipeWritePermOfBrokerResponseHeader",
    322: "namesrv.QueryDataVersionResponseHeader",
    327: "namesrv.AddWritePermOfBrokerResponseHeader",
}
TYPE_LETTERS = {"String": "S", "Integer": "I", "int": "I", "Long": "L", "long": "L", "Boolean": "B", "boolean": "P"}


class Formats:
    """Apache's classes, asked by lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, *question: str) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer or answer.startswith("!"):
            raise LookupError(answer)
        return b64decode(answer)


@pytest.fixture(scope="module")
def formats(apache: Apache) -> Iterator[Formats]:
    command = apache.toolchain.command("skyrocketmq.interop.Formats")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as process:
        yield Formats(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=20)


@pytest.mark.parametrize("name", EXAMPLES)
def test_java_reads_our_body_and_writes_the_same(formats: Formats, name: str) -> None:
    _, data = EXAMPLES[name]
    assert formats.ask("body", BODY_CLASSES.get(name, f"{BODY}.{name}"), data.decode()) == data


@pytest.mark.parametrize(
    "name", ["TopicConfigSerializeWrapper", "SubscriptionGroupWrapper", "consumer offsets", "delay offsets"]
)
def test_java_writes_the_same_configuration_file(formats: Formats, name: str) -> None:
    value, data = EXAMPLES[name]
    written = formats.ask("pretty", BODY_CLASSES.get(name, f"{BODY}.{name}"), data.decode())
    assert written == write_pretty(value)


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        *((class_name, REQUESTS[code]) for code, class_name in REQUEST_CLASSES.items()),
        *((class_name, ANSWERS[code]) for code, class_name in ANSWER_CLASSES.items()),
    ],
)
def test_java_has_the_same_fields_in_a_header(formats: Formats, class_name: str, expected: str) -> None:
    fields = [field.split(" ") for field in formats.ask("fields", f"{HEADER}.{class_name}").decode().split(",")]
    assert {f"{name} {TYPE_LETTERS[kind]}" for name, kind in fields} == set(expected.split(",")) - OUR_OWN


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize(
    "frame",
    [
        Frame(105, 7, ext={"topic": "T"}),
        Frame(310, -5, 2, {"b": "中文 😀", "i": "TAGS\x01TagA\x02KEYS\x01k"}, b"\x00body\xff", 'a "remark"\n\u2028'),
        Frame(0, 2**31 - 1, 1),
        Frame(17, 0, 1, remark="no route"),
    ],
)
def test_java_reads_our_frame_and_we_read_what_it_writes(formats: Formats, frame: Frame, encoding: Encoding) -> None:
    frame = msgspec.structs.replace(frame, encoding=encoding)
    (again,) = FrameDecoder().feed(formats.ask("frame", encode_frame(frame)[4:].hex()))
    assert again == frame


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b'{"code":"105","opaque":"7"}',
        b"{code:'105',extFields:{a:1,b:true,c:\"\",e:{x:1},f:[1]},opaque:7}",
        b'{"language":"go","opaque":1}',
        b'{"language":12,"opaque":1}',
        b'{"language":13,"opaque":1}',
        b'{"language":"3","opaque":1}',
        b'{"code":null,"flag":null,"opaque":1}',
        b'{"code":true,"opaque":1}',
        b'{"code":1.5,"opaque":1}',
        b'{"code":"1,000","opaque":1}',
        b'{"code":"","opaque":1}',
        b'{"code":"0x10","opaque":1}',
        b'{"code":2147483648,"opaque":1}',
        b'{"code":1,"code":2,"opaque":1}',
        b'{"extFields":[],"opaque":1}',
        b'{"extFields":null,"opaque":1}',
        b'/*c*/{"code":1,,"opaque":1,}//d',
        b'{"code":1 "opaque":1}',
        b'{"opaque":1}x',
        b"null",
        b"[]",
    ],
)
def test_we_take_and_refuse_odd_headers_as_java_does(formats: Formats, header: bytes) -> None:
    try:
        data = formats.ask("frame", json_frame(header)[4:].hex())
    except LookupError:
        with pytest.raises(ProtocolError):
            FrameDecoder().feed(json_frame(header))
        return
    (java,) = FrameDecoder().feed(data)
    (ours,) = FrameDecoder().feed(json_frame(header))
    if ours.opaque == OPAQUE_MISSING:
        java.opaque = OPAQUE_MISSING  # Java takes its own next number
    if ours.language is None:
        ours.language = java.language  # Java leaves it out, and a missing one is read as JAVA
    assert ours == java


@pytest.mark.parametrize(
    "text",
    [
        '{"topicFilterType":1}',
        '{"topicFilterType":"multi_tag"}',
        '{"topicFilterType":"X"}',
        '{"topicFilterType":2}',
        '{"readQueueNums":"8","order":"true"}',
        '{"readQueueNums":8.7}',
        '{"readQueueNums":"1,000"}',
        '{"readQueueNums":""}',
        '{"readQueueNums":null,"topicName":null}',
        '{"readQueueNums":true}',
        '{"readQueueNums":"x"}',
        '{"readQueueNums":99999999999}',
        '{"order":1}',
        '{"order":2}',
        '{"order":"Y"}',
        '{"order":"x"}',
        '{"topicName":5}',
        '{"topicName":{"a":1}}',
        "{'topicName':'T',perm:4,unknown:[{}],}",
        '{"topicName":"T"}{}',
    ],
)
def test_we_take_and_refuse_odd_bodies_as_java_does(formats: Formats, text: str) -> None:
    try:
        java = formats.ask("body", f"{COMMON}.TopicConfig", text)
    except LookupError:
        with pytest.raises(ProtocolError):
            decode_body(TopicConfig, text.encode())
    else:
        assert decode_body(TopicConfig, text.encode()) == decode_body(TopicConfig, java)


def test_java_follows_the_keys_that_we_follow(formats: Formats) -> None:
    quoted = '{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":5}}'
    java = formats.ask("body", f"{BODY}.ResetOffsetBody", quoted)
    assert java == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    assert decode_body(ResetOffsets, quoted.encode()) == decode_body(ResetOffsets, java)


def test_we_follow_the_references_that_java_writes_and_reads(formats: Formats) -> None:
    text = (
        '{"consumerTable":{"a":{{"brokerName":"b","queueId":1,"topic":"t"}:1},'
        '"b":{"$ref":"$.consumerTable.a"}},"messageQueueTable":{}}'
    )
    java = formats.ask("body", f"{BODY}.GetConsumerStatusBody", text)
    assert b"$ref" in java  # Java shares the object, and says so again
    expected = {MessageQueue("t", "b", 1): 1}
    for data in (text.encode(), java):
        assert decode_body(ConsumerStatus, data).consumer_table == {"a": expected, "b": expected}
