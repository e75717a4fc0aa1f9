"""JSON bodies: Java's exact text for each, and all that Java would read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import (
    BrokerData,
    ClusterInfo,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    DataVersion,
    HeartbeatData,
    MessageModel,
    MessageQueue,
    ProducerData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicFilterType,
)
from skyrocketmq.wire import bodies_admin as admin
from skyrocketmq.wire import bodies_clients as clients
from skyrocketmq.wire import bodies_tables as tables
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.codes import RequestCode
from tests.declared import REQUEST_BODIES, RESPONSE_BODIES

QUEUE = MessageQueue("T", "broker-a", 0)
QUEUE_JSON = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'
VERSION = DataVersion(timestamp=1_700_000_000_000, counter=3)
VERSION_JSON = b'{"counter":3,"timestamp":1700000000000}'
TOPIC = TopicConfig("T", 4, 4, 6)
TOPIC_JSON = (
    b'{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,'
    b'"writeQueueNums":4}'
)
GROUP = SubscriptionGroupConfig("G")
GROUP_JSON = (
    b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"G",'
    b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
)
SUBSCRIPTION = SubscriptionData(
    "T", "TagA || TagB", frozenset({"TagA", "TagB"}), frozenset({2598919, 2598920}), 1_700_000_000_000
)
SUBSCRIPTION_JSON = (
    b'{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
    b'"subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T"}'
)
CONNECTION = admin.ClientConnection(client_addr="1.2.3.4:5", client_id="c", language="JAVA", version=407)
CONNECTION_JSON = b'{"clientAddr":"1.2.3.4:5","clientId":"c","language":"JAVA","version":407}'
CONSUME_STATS = admin.ConsumeStats(
    consume_tps=0.5,
    offset_table={QUEUE: admin.ConsumeOffsets(broker_offset=10, consumer_offset=7, last_timestamp=1_700_000_000_000)},
)
CONSUME_STATS_JSON = (
    b'{"consumeTps":0.5,"offsetTable":{%b:{"brokerOffset":10,"consumerOffset":7,"lastTimestamp":1700000000000}}}'
    % QUEUE_JSON
)
STATS_ITEM = admin.BrokerStatsItem(average=2.0, sum=1, tps=0.1)
STATS_ITEM_JSON = b'{"avgpt":2.0,"sum":1,"tps":0.1}'

# The texts are what Apache 4.9.7 writes for these values.
EXAMPLES: dict[str, tuple[msgspec.Struct, bytes]] = {
    "DataVersion": (VERSION, VERSION_JSON),
    "TopicConfig": (TOPIC, TOPIC_JSON),
    "TopicConfigSerializeWrapper": (
        tables.TopicConfigTable(data_version=VERSION, topic_config_table={"T": TOPIC}),
        b'{"dataVersion":%b,"topicConfigTable":{"T":%b}}' % (VERSION_JSON, TOPIC_JSON),
    ),
    "SubscriptionGroupConfig": (GROUP, GROUP_JSON),
    "SubscriptionGroupWrapper": (
        tables.SubscriptionGroupTable(data_version=VERSION, subscription_group_table={"G": GROUP}),
        b'{"dataVersion":%b,"subscriptionGroupTable":{"G":%b}}' % (VERSION_JSON, GROUP_JSON),
    ),
    "KVTable": (tables.KvTable(table={"k": "v"}), b'{"table":{"k":"v"}}'),
    "TopicList": (
        tables.TopicList(broker_addr="10.0.0.1:10911", topic_list=("A", "B")),
        b'{"brokerAddr":"10.0.0.1:10911","topicList":["A","B"]}',
    ),
    "TopicList without address": (tables.TopicList(topic_list=("A",)), b'{"topicList":["A"]}'),
    "ClusterInfo": (
        ClusterInfo(
            broker_addr_table={
                "broker-a": BrokerData(
                    broker_addrs={0: "10.0.0.1:10911"}, broker_name="broker-a", cluster="DefaultCluster"
                )
            },
            cluster_addr_table={"DefaultCluster": ["broker-a"]},
        ),
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster"}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}',
    ),
    "MessageQueue": (QUEUE, QUEUE_JSON),
    "TopicStatsTable": (
        admin.TopicStats(
            offset_table={
                QUEUE: admin.QueueOffsets(last_update_timestamp=1_700_000_000_000, max_offset=10, min_offset=0)
            }
        ),
        b'{"offsetTable":{%b:{"lastUpdateTimestamp":1700000000000,"maxOffset":10,"minOffset":0}}}' % QUEUE_JSON,
    ),
    "ConsumeStats": (CONSUME_STATS, CONSUME_STATS_JSON),
    "ConsumeStatsList": (
        admin.ConsumeStatsList(
            broker_addr="10.0.0.1:10911", consume_stats_list=[{"CG": [CONSUME_STATS]}], total_diff=3
        ),
        b'{"brokerAddr":"10.0.0.1:10911","consumeStatsList":[{"CG":[%b]}],"totalDiff":3}' % CONSUME_STATS_JSON,
    ),
    "ConsumerConnection": (
        admin.ConsumerConnections(
            connection_set=(CONNECTION,),
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            subscription_table={"T": SUBSCRIPTION},
        ),
        b'{"connectionSet":[%b],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
        b'"messageModel":"CLUSTERING","subscriptionTable":{"T":%b}}' % (CONNECTION_JSON, SUBSCRIPTION_JSON),
    ),
    "ProducerConnection": (
        admin.ProducerConnections(connection_set=(CONNECTION,)),
        b'{"connectionSet":[%b]}' % CONNECTION_JSON,
    ),
    "ProducerTableInfo": (
        admin.ProducerTable(
            data={
                "PG": [
                    admin.ProducerInfo(
                        client_id="c",
                        language="JAVA",
                        last_update_timestamp=1_700_000_000_000,
                        remote_ip="/1.2.3.4:5",
                        version=407,
                    )
                ]
            }
        ),
        b'{"data":{"PG":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":1700000000000,'
        b'"remoteIP":"/1.2.3.4:5","version":407}]}}',
    ),
    "ResetOffsetBody": (clients.ResetOffsets(offset_table={QUEUE: 5}), b'{"offsetTable":{%b:5}}' % QUEUE_JSON),
    "ResetOffsetBody for C++": (
        clients.ResetOffsetList(
            offset_table=(clients.QueueOffsetItem(broker_name="broker-a", offset=5, queue_id=0, topic="T"),)
        ),
        b'{"offsetTable":[{"brokerName":"broker-a","offset":5,"queueId":0,"topic":"T"}]}',
    ),
    "GetConsumerStatusBody from a client": (
        clients.ConsumerStatus(message_queue_table={QUEUE: 5}),
        b'{"consumerTable":{},"messageQueueTable":{%b:5}}' % QUEUE_JSON,
    ),
    "GetConsumerStatusBody from a broker": (
        clients.ConsumerStatus(consumer_table={"c1": {QUEUE: 5}}),
        b'{"consumerTable":{"c1":{%b:5}},"messageQueueTable":{}}' % QUEUE_JSON,
    ),
    "QueryConsumeTimeSpanBody": (
        admin.ConsumeTimeSpans(
            consume_time_span_set=(
                admin.ConsumeTimeSpan(
                    consume_timestamp=3,
                    consume_timestamp_text="1970-01-01#00:00:00:003",
                    delay_time=4,
                    max_timestamp=2,
                    max_timestamp_text="1970-01-01#00:00:00:002",
                    message_queue=QUEUE,
                    min_timestamp=1,
                    min_timestamp_text="1970-01-01#00:00:00:001",
                ),
            )
        ),
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":3,"consumeTimeStampStr":"1970-01-01#00:00:00:003","delayTime":4,'
        b'"maxTimeStamp":2,"maxTimeStampStr":"1970-01-01#00:00:00:002","messageQueue":%b,"minTimeStamp":1,'
        b'"minTimeStampStr":"1970-01-01#00:00:00:001"}]}' % QUEUE_JSON,
    ),
    "ConsumeMessageDirectlyResult": (
        clients.ConsumeMessageDirectlyResult(consume_result=clients.ConsumeResultName.CR_SUCCESS, spent_time_ms=3),
        b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}',
    ),
    "BrokerStatsData": (
        admin.BrokerStats(stats_day=STATS_ITEM, stats_hour=STATS_ITEM, stats_minute=STATS_ITEM),
        b'{"statsDay":%b,"statsHour":%b,"statsMinute":%b}' % (STATS_ITEM_JSON, STATS_ITEM_JSON, STATS_ITEM_JSON),
    ),
    "QueryConsumeQueueResponseBody": (
        admin.ConsumeQueueEntries(
            max_queue_index=9,
            min_queue_index=0,
            queue_data=[admin.ConsumeQueueEntry(log_offset=1, size_bytes=2, tags_code=3)],
        ),
        b'{"maxQueueIndex":9,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":1,"physicSize":2,'
        b'"tagsCode":3}]}',
    ),
    "OffsetMovedEvent": (
        admin.OffsetMovedEvent(consumer_group="CG", message_queue=QUEUE, offset_new=2, offset_request=1),
        b'{"consumerGroup":"CG","messageQueue":%b,"offsetNew":2,"offsetRequest":1}' % QUEUE_JSON,
    ),
    "ConsumerRunningInfo": (
        clients.ConsumerRunningInfo(
            mq_table={QUEUE: clients.ProcessQueueInfo(commit_offset=7)},
            properties={"PROP_NAMESERVER_ADDR": "1.2.3.4:9876;"},
            status_table={"T": clients.ConsumeStatus()},
            subscription_set=(SUBSCRIPTION,),
        ),
        b'{"mqTable":{%b:{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,'
        b'"commitOffset":7,"droped":false,"lastConsumeTimestamp":0,"lastLockTimestamp":0,"lastPullTimestamp":0,'
        b'"locked":false,"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,'
        b'"tryUnlockTimes":0}},"properties":{"PROP_NAMESERVER_ADDR":"1.2.3.4:9876;"},"statusTable":{"T":'
        b'{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":0.0,"consumeRT":0.0,"pullRT":0.0,'
        b'"pullTPS":0.0}},"subscriptionSet":[%b]}' % (QUEUE_JSON, SUBSCRIPTION_JSON),
    ),
    "HeartbeatData": (
        HeartbeatData(
            client_id="10.0.0.1@123#456",
            producer_data_set=(ProducerData("PG"),),
            consumer_data_set=(
                ConsumerData(
                    "CG",
                    ConsumeType.CONSUME_PASSIVELY,
                    MessageModel.CLUSTERING,
                    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
                    (SUBSCRIPTION,),
                ),
            ),
        ),
        b'{"clientID":"10.0.0.1@123#456","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[%b],'
        b'"unitMode":false}],"producerDataSet":[{"groupName":"PG"}]}' % SUBSCRIPTION_JSON,
    ),
    "CheckClientRequestBody": (
        clients.CheckClientRequest(client_id="c", group="CG", subscription_data=SUBSCRIPTION),
        b'{"clientId":"c","group":"CG","subscriptionData":%b}' % SUBSCRIPTION_JSON,
    ),
    "LockBatchRequestBody": (
        clients.QueueLockRequest(client_id="c", consumer_group="CG", mq_set=(QUEUE,)),
        b'{"clientId":"c","consumerGroup":"CG","mqSet":[%b]}' % QUEUE_JSON,
    ),
    "LockBatchResponseBody": (
        clients.LockedQueues(lock_ok_mq_set=(QUEUE,)),
        b'{"lockOKMQSet":[%b]}' % QUEUE_JSON,
    ),
    "GetConsumerListByGroupResponseBody": (
        clients.ConsumerIdList(consumer_id_list=("c1", "c2")),
        b'{"consumerIdList":["c1","c2"]}',
    ),
    "consumer offsets": (
        tables.ConsumerOffsetTable(offset_table={"T@CG": {0: 5, 1: 6}}),
        b'{"offsetTable":{"T@CG":{0:5,1:6}}}',
    ),
    "delay offsets": (tables.DelayOffsetTable(offset_table={3: 10}), b'{"offsetTable":{3:10}}'),
    "correction offsets": (
        tables.CorrectionOffsets(correction_offsets={0: 5, 1: 2**63 - 1}),
        b'{"correctionOffsets":{0:5,1:9223372036854775807}}',
    ),
    "GroupList": (admin.GroupList(group_list=("CG",)), b'{"groupList":["CG"]}'),
    "AclConfig": (
        admin.AccessConfig(
            global_white_addrs=["10.*"],
            plain_access_configs=[admin.AccountConfig(access_key="a", secret_key="s", topic_perms=["T=PUB"])],
        ),
        b'{"globalWhiteAddrs":["10.*"],"plainAccessConfigs":[{"accessKey":"a","admin":false,"groupPerms":[],'
        b'"secretKey":"s","topicPerms":["T=PUB"]}]}',
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
class TestExamples:
    def test_is_written_as_java_writes_it(self, name: str) -> None:
        value, data = EXAMPLES[name]
        assert encode_body(value) == data

    def test_is_read_back(self, name: str) -> None:
        value, data = EXAMPLES[name]
        assert decode_body(type(value), data) == value

    def test_standard_json_is_read_back(self, name: str) -> None:
        value, _ = EXAMPLES[name]
        assert decode_body(type(value), encode_body(value, standard_json=True)) == value

    def test_the_loosest_form_is_read(self, name: str) -> None:
        value, data = EXAMPLES[name]
        loose = b"/* loose */" + data.replace(b'"', b"'").replace(b",", b" ,, ")
        if b"||" not in data:  # keys only: texts with blanks keep their quotation marks
            loose = loose.replace(b"'brokerName'", b"brokerName").replace(b"'offsetTable'", b" offsetTable ")
        assert decode_body(type(value), loose) == value


class TestJavasLeniency:
    def test_unknown_members_are_ignored_and_missing_ones_have_their_defaults(self) -> None:
        assert decode_body(TopicConfig, b'{"attributes":{"x":[1]},"topicName":"T"}') == TopicConfig("T")

    def test_null_counts_as_missing_also_for_collections(self) -> None:
        data = b'{"clientID":"c","consumerDataSet":null,"producerDataSet":[{"groupName":null},null]}'
        assert decode_body(HeartbeatData, data) == HeartbeatData("c", producer_data_set=(ProducerData(),))

    def test_numbers_may_be_texts_and_texts_numbers(self) -> None:
        data = b'{"topicName":5,"readQueueNums":"8","perm":"6","order":"true","writeQueueNums":8.0}'
        assert decode_body(TopicConfig, data) == TopicConfig("5", 8, 8, 6, order=True)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (b'"MULTI_TAG"', TopicFilterType.MULTI_TAG),
            (b'"multi_tag"', TopicFilterType.MULTI_TAG),
            (b"1", TopicFilterType.MULTI_TAG),
            (b"0", TopicFilterType.SINGLE_TAG),
            (b'"OTHER"', TopicFilterType.SINGLE_TAG),
            (b"null", TopicFilterType.SINGLE_TAG),
        ],
    )
    def test_enums_by_name_in_any_case_or_by_position(self, text: bytes, expected: TopicFilterType) -> None:
        assert decode_body(TopicConfig, b'{"topicFilterType":%b}' % text).topic_filter_type is expected

    def test_every_enum_has_javas_order(self) -> None:
        data = b'{"consumeFromWhere":4,"consumeType":1,"messageModel":0}'
        assert decode_body(ConsumerData, data) == ConsumerData(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.BROADCASTING,
        )

    def test_a_queue_as_key_may_be_a_text_that_holds_its_json(self) -> None:
        data = b'{"offsetTable":{"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":5}}'
        assert decode_body(clients.ResetOffsets, data) == clients.ResetOffsets(offset_table={QUEUE: 5})

    def test_references_are_followed(self) -> None:
        data = (
            b'{"consumeTimeSpanSet":[{"delayTime":1,"messageQueue":%b},'
            b'{"delayTime":2,"messageQueue":{"$ref":"$.consumeTimeSpanSet[0].messageQueue"}}]}' % QUEUE_JSON
        )
        spans = decode_body(admin.ConsumeTimeSpans, data).consume_time_span_set
        assert [(span.delay_time, span.message_queue) for span in spans] == [(1, QUEUE), (2, QUEUE)]

    def test_unquoted_keys_inside_texts_are_left_alone(self) -> None:
        table = tables.KvTable(table={"a": "{0:x,1:y", "b": '{"0":1}'})
        assert decode_body(tables.KvTable, encode_body(table)) == table
        mixed = b'{table:{"a":"{0:x,1:y"}}'
        assert decode_body(tables.KvTable, mixed) == tables.KvTable(table={"a": "{0:x,1:y"})

    def test_text_that_is_not_utf8_is_read_with_replacement_characters(self) -> None:
        assert decode_body(tables.KvTable, b'{"table":{"a":"\xff"}}') == tables.KvTable(table={"a": "\ufffd"})

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b" ",
            b"null",
            b"[]",
            b'"x"',
            b"{}{}",
            b'{"readQueueNums":99999999999}',
            b'{"readQueueNums":"x"}',
            b'{"readQueueNums":[]}',
            b'{"readQueueNums":1e300}',
            b'{"order":{}}',
            b'{"order":"x"}',
            b'{"topicFilterType":2}',
            b'{"topicFilterType":{}}',
        ],
    )
    def test_what_java_refuses_is_refused(self, data: bytes) -> None:
        with pytest.raises(ProtocolError):
            decode_body(TopicConfig, data)

    @pytest.mark.parametrize("part", [b'"":"",', b"{},", b"0:0,"])
    def test_a_body_of_millions_of_tiny_parts_is_refused(self, part: bytes) -> None:
        with pytest.raises(ProtocolError, match="parts"):
            decode_body(tables.KvTable, b'{"table":{%b}}' % (part * 2_100_000))


class TestWriting:
    def test_standard_json_has_quoted_keys_and_escapes(self) -> None:
        table = tables.DelayOffsetTable(offset_table={3: 10})
        assert encode_body(table, standard_json=True) == b'{"offsetTable":{"3":10}}'
        assert encode_body(tables.KvTable(table={"k": "é"}), standard_json=True) == b'{"table":{"k":"\\u00E9"}}'

    def test_null_members_are_left_out_wherever_they_stand(self) -> None:
        assert encode_body(ConsumerData("G")) == b'{"groupName":"G","subscriptionDataSet":[],"unitMode":false}'
        assert encode_body(admin.BrokerStats()) == b"{}"
        assert encode_body(clients.CheckClientRequest(group="g")) == b'{"group":"g"}'
        assert encode_body(clients.CheckClientRequest(client_id="c", group="g")) == b'{"clientId":"c","group":"g"}'

    def test_the_word_null_inside_a_text_stays(self) -> None:
        table = tables.KvTable(table={"a": '"b":null,', "c": "x:null"})
        assert decode_body(tables.KvTable, encode_body(table)) == table


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
QUEUES = st.builds(MessageQueue, TEXTS, TEXTS, st.integers(-(2**31), 2**31 - 1))
OFFSETS = st.integers(-(2**63), 2**63 - 1)


@given(st.dictionaries(QUEUES, OFFSETS, max_size=4))
def test_offsets_by_queue_are_read_back(offsets: dict[MessageQueue, int]) -> None:
    body = clients.ResetOffsets(offset_table=offsets)
    assert decode_body(clients.ResetOffsets, encode_body(body)) == body


@given(
    st.dictionaries(TEXTS, st.dictionaries(st.integers(0, 2**31 - 1), OFFSETS, max_size=3), max_size=3), st.booleans()
)
def test_offsets_by_number_are_read_back(offsets: dict[str, dict[int, int]], standard_json: bool) -> None:
    body = tables.ConsumerOffsetTable(offset_table=offsets)
    assert decode_body(tables.ConsumerOffsetTable, encode_body(body, standard_json=standard_json)) == body


@given(st.dictionaries(TEXTS, TEXTS, max_size=4), st.booleans())
def test_texts_by_name_are_read_back(texts: dict[str, str], standard_json: bool) -> None:
    body = tables.KvTable(table=texts)
    assert decode_body(tables.KvTable, encode_body(body, standard_json=standard_json)) == body


@pytest.mark.parametrize("registry", [REQUEST_BODIES, RESPONSE_BODIES], ids=["requests", "answers"])
def test_every_body_of_the_registry_can_be_empty_and_written(registry: dict[RequestCode, type[msgspec.Struct]]) -> None:
    for cls in registry.values():
        empty = cls()
        assert decode_body(cls, encode_body(empty)) == empty
        assert decode_body(cls, b"{}") == empty
