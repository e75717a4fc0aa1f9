"""Who may pull what: the checks alone, each at its bound."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocketmq.broker.clients import ConsumerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.pull_filters import RetryFilter, SqlPullFilter
from skyrocketmq.broker.pull_rules import PullPlan, check_pull, pull_code
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import LimitsConfig
from skyrocketmq.errors import BrokerError
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.filters.sql_parser import CHARACTERS_MAX
from skyrocketmq.model import MessageModel, SubscriptionData, SubscriptionGroupConfig, TopicConfig
from skyrocketmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocketmq.model.heartbeats import ConsumerData
from skyrocketmq.model.names import PERM_READ, PERM_WRITE, retry_topic
from skyrocketmq.store.statuses import GetStatus
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.headers_pull import PullMessageHeader
from tests.broker.support import holder, member

TOPIC, GROUP = "T", "g"
OWN = {"sys_flag": PULL_SUBSCRIPTION, "subscription": "*"}


class Desk:
    """The tables that a pull is checked against."""

    def __init__(self, **config: Any) -> None:
        clock = ManualClock()
        self.config = holder(clock, **config)
        self.topics = TopicTable(self.config, clock)
        self.groups = GroupTable(self.config, clock)
        self.consumers: ConsumerTable[str] = ConsumerTable()
        self.filters = ConsumerFilters(BloomFilter(error_percent=20, subscriber_count=32))
        self.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=3, write_queue_nums=8))
        self.topics.put(TopicConfig(topic_name=retry_topic(GROUP), read_queue_nums=1, write_queue_nums=1))

    def subscribe(self, *said: SubscriptionData, model: MessageModel = MessageModel.CLUSTERING) -> None:
        data = ConsumerData(group_name=GROUP, message_model=model, subscription_data_set=said)
        self.consumers.register(member("c"), data)
        self.filters.register(GROUP, said, now_ms=1)

    def pull(self, **fields: Any) -> PullPlan:
        usual: dict[str, Any] = {
            "consumer_group": GROUP,
            "topic": TOPIC,
            "queue_id": 0,
            "queue_offset": 7,
            "max_msg_nums": 32,
            "sys_flag": 0,
            "commit_offset": 0,
            "suspend_timeout_ms": 0,
            "sub_version": 5,
        }
        return check_pull(
            PullMessageHeader(**(usual | fields)),
            config=self.config.current,
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            filters=self.filters,
        )

    def refused(self, **fields: Any) -> ResponseCode:
        with pytest.raises(BrokerError) as refused:
            self.pull(**fields)
        return ResponseCode(refused.value.code)


def test_a_plan_says_what_was_asked_for() -> None:
    plan = Desk().pull(**OWN, queue_id=2)
    assert (plan.group.group_name, plan.topic, plan.queue_id) == (GROUP, TOPIC, 2)
    assert (plan.tag_codes, plan.tags, plan.filter) == (None, None, None)
    tagged = Desk().pull(sys_flag=PULL_SUBSCRIPTION, subscription="A")
    assert tagged.tag_codes == {65}
    assert tagged.tags is not None
    assert tagged.tags.matches(65)
    assert not tagged.tags.matches(66)


def test_a_check_changes_nothing_and_says_which_group_is_to_be_made() -> None:
    desk = Desk()
    assert desk.pull(**OWN).is_new_group
    assert desk.pull(**OWN).group == SubscriptionGroupConfig(group_name=GROUP)
    assert desk.groups.find(GROUP) is None
    desk.groups.put(SubscriptionGroupConfig(group_name=GROUP, broker_id=3))
    assert not desk.pull(**OWN).is_new_group
    assert desk.pull(**OWN).group.broker_id == 3
    assert Desk().refused(**OWN, consumer_group="no legal name!") is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(("queue_id", "is_there"), [(-1, False), (0, True), (2, True), (3, False), (7, False)])
def test_the_queues_that_are_read_from_are_those_below_their_number(queue_id: int, is_there: bool) -> None:
    if is_there:
        assert Desk().pull(**OWN, queue_id=queue_id).queue_id == queue_id
    else:
        assert Desk().refused(**OWN, queue_id=queue_id) is ResponseCode.SYSTEM_ERROR


def test_broker_group_and_topic_have_to_let_it_read() -> None:
    assert Desk(permission=PERM_WRITE).refused(**OWN) is ResponseCode.NO_PERMISSION
    assert Desk(permission=PERM_READ).pull(**OWN).topic == TOPIC
    desk = Desk()
    desk.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1, perm=PERM_WRITE))
    assert desk.refused(**OWN) is ResponseCode.NO_PERMISSION
    assert desk.refused(**OWN, topic="Unknown") is ResponseCode.TOPIC_NOT_EXIST
    desk.groups.put(SubscriptionGroupConfig(group_name=GROUP, consume_enable=False))
    assert desk.refused(**OWN) is ResponseCode.NO_PERMISSION
    assert Desk(auto_create_group=False).refused(**OWN) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(
    "name", ["consumer_group", "topic", "queue_id", "queue_offset", "max_msg_nums", "sys_flag", "sub_version"]
)
def test_a_pull_that_lacks_what_it_needs_is_refused(name: str) -> None:
    desk = Desk()
    desk.subscribe(SubscriptionData(topic=TOPIC, sub_version=5))
    assert desk.pull().topic == TOPIC
    assert desk.refused(**{name: None}) is ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("name", "flag", "is_needed_with"),
    [
        ("commit_offset", PULL_COMMIT_OFFSET, True),
        ("suspend_timeout_ms", PULL_SUSPEND, True),
        ("sub_version", PULL_SUBSCRIPTION, False),
    ],
)
def test_some_fields_are_needed_only_with_their_flag_or_without_it(name: str, flag: int, is_needed_with: bool) -> None:
    desk = Desk()
    desk.subscribe(SubscriptionData(topic=TOPIC, sub_version=5))
    others = (PULL_COMMIT_OFFSET | PULL_SUSPEND | PULL_SUBSCRIPTION) & ~flag
    for also in (0, others):
        needing, needless = (flag | also, also) if is_needed_with else (also, flag | also)
        assert desk.refused(sys_flag=needing, **{name: None}) is ResponseCode.SYSTEM_ERROR
        assert desk.pull(sys_flag=needless, **{name: None}).topic == TOPIC


def test_what_the_group_said_counts_unless_the_pull_brings_its_own() -> None:
    desk = Desk()
    desk.subscribe(SubscriptionData(topic=TOPIC, sub_string="A", code_set=frozenset({65}), sub_version=5))
    assert desk.pull().tag_codes == {65}
    assert desk.pull(sys_flag=PULL_SUBSCRIPTION, subscription="B || C").tag_codes == {66, 67}
    desk.subscribe(SubscriptionData(topic=TOPIC, sub_string="*", code_set=frozenset({65}), sub_version=6))
    assert desk.pull().tag_codes is None
    of_a_class = SubscriptionData(
        topic=TOPIC, sub_string="A", code_set=frozenset({65}), sub_version=7, class_filter_mode=True
    )
    desk.subscribe(of_a_class)
    assert desk.pull().tag_codes is None


def test_a_pull_never_reads_by_an_older_subscription_than_its_own() -> None:
    desk = Desk()
    assert desk.refused() is ResponseCode.SUBSCRIPTION_NOT_EXIST
    desk.subscribe(SubscriptionData(topic="Other", sub_version=5))
    assert desk.refused() is ResponseCode.SUBSCRIPTION_NOT_EXIST
    desk.subscribe(SubscriptionData(topic=TOPIC, sub_version=5))
    assert desk.pull(sub_version=5).topic == TOPIC
    assert desk.pull(sub_version=4).topic == TOPIC
    assert desk.refused(sub_version=6) is ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_versions_may_be_0_on_both_sides() -> None:
    desk = Desk(sql_filter_enable=True)
    desk.subscribe(SubscriptionData(topic=TOPIC, sub_version=0))
    assert desk.pull(sub_version=0).filter is None
    desk = Desk(sql_filter_enable=True)
    desk.subscribe(sql(version=0))
    assert desk.pull(sub_version=0).filter is not None


def test_a_group_broadcasts_only_where_it_may() -> None:
    for may, model, is_refused in (
        (False, MessageModel.BROADCASTING, True),
        (True, MessageModel.BROADCASTING, False),
        (False, MessageModel.CLUSTERING, False),
    ):
        desk = Desk()
        desk.groups.put(SubscriptionGroupConfig(group_name=GROUP, consume_broadcast_enable=may))
        desk.subscribe(SubscriptionData(topic=TOPIC, sub_version=5), model=model)
        if is_refused:
            assert desk.refused() is ResponseCode.NO_PERMISSION
        else:
            assert desk.pull().topic == TOPIC


def sql(text: str = "a > 5", version: int = 5) -> SubscriptionData:
    return SubscriptionData(topic=TOPIC, sub_string=text, sub_version=version, expression_type="SQL92")


def test_an_expression_of_the_group_is_its_filter_if_it_is_known_and_as_new() -> None:
    desk = Desk(sql_filter_enable=True)
    desk.subscribe(sql())
    plan = desk.pull()
    assert plan.tag_codes is None
    assert isinstance(plan.filter, SqlPullFilter)
    assert plan.filter.wants(b"a\x016\x02")
    assert not plan.filter.wants(b"a\x015\x02")
    desk.consumers.register(member("c"), ConsumerData(group_name=GROUP, subscription_data_set=(sql(version=6),)))
    assert desk.pull(sub_version=5).filter is not None
    assert desk.refused(sub_version=6) is ResponseCode.FILTER_DATA_NOT_LATEST
    off = Desk()
    off.subscribe(sql())
    assert off.refused() is ResponseCode.SYSTEM_ERROR
    bad = Desk(sql_filter_enable=True)
    bad.subscribe(sql("a >"))
    assert bad.refused() is ResponseCode.FILTER_DATA_NOT_EXIST


def test_an_expression_of_the_pull_has_to_be_one_that_the_broker_knows() -> None:
    desk = Desk(sql_filter_enable=True)
    own = {"sys_flag": PULL_SUBSCRIPTION, "subscription": "a > 5"}
    assert isinstance(desk.pull(**own, expression_type="SQL92").filter, SqlPullFilter)
    assert desk.refused(**own, expression_type="XPATH") is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    for missing in ("", None):
        fields = own | {"subscription": missing}
        assert desk.refused(**fields, expression_type="SQL92") is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert desk.refused(**own | {"subscription": "a >"}, expression_type="SQL92") is (
        ResponseCode.SUBSCRIPTION_PARSE_FAILED
    )
    assert Desk().refused(**own, expression_type="SQL92") is ResponseCode.SYSTEM_ERROR


def test_a_pull_names_no_more_tags_than_the_limit_and_no_longer_ones() -> None:
    desk = Desk(limits=LimitsConfig(pull_tags_max=3))
    assert len(desk.pull(sys_flag=PULL_SUBSCRIPTION, subscription="a||b||c").tag_codes or ()) == 3
    for text in ("a||b||c||d", "x" * (CHARACTERS_MAX + 1)):
        assert desk.refused(sys_flag=PULL_SUBSCRIPTION, subscription=text) is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    longest = "x" * CHARACTERS_MAX
    assert len(desk.pull(sys_flag=PULL_SUBSCRIPTION, subscription=longest).tag_codes or ()) == 1


def test_retries_are_filtered_by_what_the_group_said_of_their_topics_where_that_is_wanted() -> None:
    retry = retry_topic(GROUP)
    for wanted, topic, has_filter, is_filtered in (
        (True, retry, True, True),
        (True, retry, False, False),
        (True, TOPIC, True, False),
        (False, retry, True, False),
    ):
        desk = Desk(sql_filter_enable=True, filter_retry_messages=wanted)
        if has_filter:
            desk.filters.register(GROUP, [sql()], now_ms=1)
        assert isinstance(desk.pull(**OWN, topic=topic).filter, RetryFilter) == is_filtered
    desk = Desk(sql_filter_enable=True, filter_retry_messages=True)
    desk.filters.register(GROUP, [sql()], now_ms=1)
    own = {"sys_flag": PULL_SUBSCRIPTION, "subscription": "b = 1", "expression_type": "SQL92"}
    assert isinstance(desk.pull(**own, topic=retry).filter, SqlPullFilter), "what a pull brings itself comes first"


def test_a_queue_without_messages_is_nothing_new_at_0_and_a_move_elsewhere() -> None:
    for status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        assert pull_code(status, 0) is ResponseCode.PULL_NOT_FOUND
        assert pull_code(status, 1) is ResponseCode.PULL_OFFSET_MOVED
    assert pull_code(GetStatus.FOUND, 0) is ResponseCode.SUCCESS
    assert pull_code(GetStatus.OFFSET_TOO_SMALL, 0) is ResponseCode.PULL_OFFSET_MOVED
