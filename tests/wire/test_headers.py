"""Every request code has its header: names and types as the protocol has them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.codes import UNHANDLED_REQUESTS, RequestCode
from skyrocketmq.wire.headers_codec import Header, NoFields, decode_header, encode_header
from skyrocketmq.wire.headers_pull import PullMessageAnswer, PullMessageHeader
from skyrocketmq.wire.headers_send import SendMessageAnswer, SendMessageHeader, SendMessageHeaderV2
from tests.declared import REQUEST_HEADERS, RESPONSE_HEADERS

# Wire names in the protocol's order, with a letter for the type: S text, I 32 bits, L 64 bits, B boolean, and a
# capital P for a boolean or number that Java always writes.
SEND_V1 = (
    "producerGroup S,topic S,defaultTopic S,defaultTopicQueueNums I,queueId I,sysFlag I,bornTimestamp L,flag I,"
    "properties S,reconsumeTimes I,unitMode P,maxReconsumeTimes I,batch P,bname S"
)
SEND_V2 = "a S,b S,c S,d I,e I,f I,g L,h I,i S,j I,k P,l I,m P,n S"
SEND_ANSWER = "msgId S,queueId I,queueOffset L,transactionId S,MSG_REGION S,TRACE_ON S"
REQUESTS = {
    10: SEND_V1,
    11: "consumerGroup S,topic S,queueId I,queueOffset L,maxMsgNums I,sysFlag I,commitOffset L,suspendTimeoutMillis L,"
    "subscription S,subVersion L,expressionType S,bname S",
    12: "topic S,key S,maxNum I,beginTimestamp L,endTimestamp L,_UNIQUE_KEY_QUERY B",
    14: "consumerGroup S,topic S,queueId I,bname S",
    15: "consumerGroup S,topic S,queueId I,commitOffset L,bname S",
    17: "topic S,defaultTopic S,readQueueNums I,writeQueueNums I,perm I,topicFilterType S,topicSysFlag I,order P",
    29: "topic S,queueId I,timestamp L,bname S",
    30: "topic S,queueId I,bname S",
    31: "topic S,queueId I,bname S",
    32: "topic S,queueId I,bname S",
    33: "offset L,anyRecord B",  # the second is ours: see `handlers_queries`
    35: "clientID S,producerGroup S,consumerGroup S",
    36: "offset L,group S,delayLevel I,originMsgId S,originTopic S,unitMode P,maxReconsumeTimes I,bname S",
    37: "producerGroup S,tranStateTableOffset L,commitLogOffset L,commitOrRollback I,fromTransactionCheck B,msgId S,"
    "transactionId S,bname S",
    38: "consumerGroup S",
    39: "tranStateTableOffset L,commitLogOffset L,msgId S,transactionId S,offsetMsgId S,bname S",
    40: "consumerGroup S",
    50: "accessKey S,secretKey S,whiteRemoteAddress S,admin P,defaultTopicPerm S,defaultGroupPerm S,topicPerms S,"
    "groupPerms S",
    51: "accessKey S",
    53: "globalWhiteAddrs S,aclFileFullPath S",
    100: "namespace S,key S,value S",
    101: "namespace S,key S",
    102: "namespace S,key S",
    103: "brokerName S,brokerAddr S,clusterName S,haServerAddr S,brokerId L,compressed P,bodyCrc32 I",
    104: "brokerName S,brokerAddr S,clusterName S,brokerId L",
    105: "topic S,acceptStandardJsonOnly B",
    202: "topic S",
    203: "consumerGroup S",
    204: "producerGroup S",
    205: "brokerName S",
    207: "groupName S,removeOffset P",
    208: "consumerGroup S,topic S",
    215: "topic S",
    216: "topic S,clusterName S",
    219: "namespace S",
    220: "topic S,group S,timestamp L,isForce P",
    221: "topic S,group S,clientAddr S",
    222: "topic S,group S,timestamp L,isForce P",
    223: "topic S,group S,clientAddr S",
    224: "cluster S",
    300: "topic S",
    303: "topic S,group S",
    307: "consumerGroup S,clientId S,jstackEnable P",
    308: "filterGroups S,compareGroup S,topic S",
    309: "consumerGroup S,clientId S,msgId S,brokerName S",
    310: SEND_V2,
    314: "srcGroup S,destGroup S,topic S,offline P",
    315: "statsName S,statsKey S",
    317: "isOrder P",
    320: SEND_V2,
    321: "topic S,queueId I,index L,count I,consumerGroup S",
    322: "brokerName S,brokerAddr S,clusterName S,brokerId L",
    323: "msgId S",
    324: SEND_V1,
    325: SEND_V2,
    326: "producerGroup S,topic S,defaultTopic S,defaultTopicQueueNums I,queueId I,sysFlag I,bornTimestamp L,flag I,"
    "properties S,reconsumeTimes I,unitMode P,bornHost S,storeHost S,storeTimestamp L",
    327: "brokerName S",
    343: "group S",
    345: "topic S,group S",
    351: "topic S",
    352: "group S",
}
ANSWERS = {
    10: SEND_ANSWER,
    11: "suggestWhichBrokerId L,nextBeginOffset L,minOffset L,maxOffset L",
    12: "indexLastUpdateTimestamp L,indexLastUpdatePhyoffset L",
    14: "offset L",
    15: "offset L",  # ours, to slaves that report what groups committed there
    26: "version S",
    29: "offset L",
    30: "offset L",
    31: "offset L",
    32: "timestamp L",
    52: "version S,allAclFileVersion S,brokerName S,brokerAddr S,clusterName S",
    101: "value S",
    103: "haServerAddr S,masterAddr S",
    205: "wipeTopicCount I",
    310: SEND_ANSWER,
    320: SEND_ANSWER,
    322: "changed B",
    324: SEND_ANSWER,
    325: SEND_ANSWER,
    327: "addTopicCount I",
}


def describe(cls: type[Header]) -> str:
    """The fields of a header in the notation of the tables above, found out by using it."""
    fields = []
    defaults = encode_header(cls())
    for name in cls.__struct_encode_fields__:
        attribute = cls.__struct_fields__[cls.__struct_encode_fields__.index(name)]
        kind = "S"
        if getattr(decode_header(cls, {name: "true"}), attribute) is True:
            kind = "P" if name in defaults else "B"
        elif getattr(decode_header(cls, {name: str(2**62)}), attribute) == 2**62:
            kind = "L"
        elif getattr(decode_header(cls, {name: "77"}), attribute) == 77:
            kind = "I"
        fields.append(f"{name} {kind}")
    return ",".join(fields)


@pytest.mark.parametrize("code", RequestCode)
def test_the_fields_of_every_code_are_the_protocols(code: RequestCode, monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (REQUEST_HEADERS[code], RESPONSE_HEADERS[code]):
        monkeypatch.setattr(cls, "is_fast", False)  # so that a field can be tried with values of each type
    assert describe(REQUEST_HEADERS[code]) == REQUESTS.get(code, "")
    assert describe(RESPONSE_HEADERS[code]) == ANSWERS.get(code, "")


def test_codes_that_nobody_handles_have_no_header() -> None:
    assert {REQUEST_HEADERS[code] for code in UNHANDLED_REQUESTS} == {NoFields}


def test_the_two_send_headers_have_the_same_attributes() -> None:
    assert SendMessageHeader.__struct_fields__ == SendMessageHeaderV2.__struct_fields__


def test_a_send_is_read_alike_in_both_versions() -> None:
    values = ["PG", "T", "TBW102", "4", "1", "0", "1700000000000", "0", "p", "0", "false", "16", "true", "broker-a"]
    v1 = decode_header(SendMessageHeader, dict(zip(SendMessageHeader.__struct_encode_fields__, values, strict=True)))
    v2 = decode_header(SendMessageHeaderV2, dict(zip("abcdefghijklmn", values, strict=True)))
    assert msgspec.structs.asdict(v1) == msgspec.structs.asdict(v2)
    assert (v2.queue_id, v2.born_timestamp, v2.unit_mode, v2.batch) == (1, 1_700_000_000_000, False, True)


@pytest.mark.parametrize("cls", [SendMessageHeaderV2, SendMessageAnswer, PullMessageHeader, PullMessageAnswer])
def test_send_v2_and_pull_refuse_numbers_they_cannot_read(cls: type[Header]) -> None:
    number = {"SendMessageHeaderV2": "e", "SendMessageAnswer": "queueId", "PullMessageAnswer": "minOffset"}.get(
        cls.__name__, "queueId"
    )
    with pytest.raises(ProtocolError):
        decode_header(cls, {number: "x"})


def test_the_old_send_header_leaves_such_a_number_null() -> None:
    assert decode_header(SendMessageHeader, {"queueId": "x", "topic": "T"}) == SendMessageHeader(topic="T")


def test_primitive_booleans_are_always_written() -> None:
    assert encode_header(SendMessageHeaderV2()) == {"k": "false", "m": "false"}


HEADERS = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", HEADERS)
@settings(max_examples=20)  # of each of the sixty classes; the codec has a test of its own
@given(st.data())
def test_any_ext_fields_give_a_header_or_a_protocol_error(cls: type[Header], data: st.DataObject) -> None:
    names = st.sampled_from([*cls.__struct_encode_fields__, "other"])
    texts = st.none() | st.text(max_size=8) | st.integers().map(str) | st.sampled_from(["true", "FALSE", "1", "0"])
    ext = data.draw(st.dictionaries(names, texts, max_size=6))
    try:
        header = decode_header(cls, ext)
    except ProtocolError:
        assert cls.is_fast
    else:
        assert decode_header(cls, encode_header(header)) == header
