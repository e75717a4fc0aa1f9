"""Headers of what administrators ask of a broker."""

from __future__ import annotations

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.wire.headers_codec import Header

__all__ = [
    "BrokerAclInfoAnswer",
    "BrokerStatsHeader",
    "CloneGroupOffsetHeader",
    "CorrectionOffsetHeader",
    "CreateAccessConfigHeader",
    "CreateTopicHeader",
    "DeleteAccessConfigHeader",
    "DeleteSubscriptionGroupHeader",
    "GetBrokerConfigAnswer",
    "GetBrokerConsumeStatsHeader",
    "GetConsumeStatsHeader",
    "GroupHeader",
    "ProducerGroupHeader",
    "QueryConsumeQueueHeader",
    "ResumeCheckHalfMessageHeader",
    "TopicHeader",
    "TopicOfGroupHeader",
    "UpdateWhiteAddressesHeader",
]


class CreateTopicHeader(Header):
    """17: a topic to make or to change. `order` is read and ignored, as by Apache's broker."""

    topic: str | None = None
    default_topic: str | None = None
    read_queue_nums: Int32 | None = None
    write_queue_nums: Int32 | None = None
    perm: Int32 | None = None
    topic_filter_type: str | None = None
    topic_sys_flag: Int32 | None = None
    order: bool = False


class TopicHeader(Header):
    """202, 215, 300, 351: a topic."""

    topic: str | None = None


class GetBrokerConfigAnswer(Header):
    """26: the version of the configuration, as the JSON of a DataVersion; the configuration is the body."""

    version: str | None = None


class CreateAccessConfigHeader(Header):
    """50: an account to make or to change; permissions are lists with commas, `topic=PUB|SUB`."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None

    def __repr__(self) -> str:
        return f"CreateAccessConfigHeader(access_key={self.access_key!r}, ...)"  # no secret gets into a log


class DeleteAccessConfigHeader(Header):
    """51: the account that goes."""

    access_key: str | None = None


class UpdateWhiteAddressesHeader(Header):
    """53: the addresses that need no account, with commas between."""

    global_white_addrs: str | None = None
    acl_file_full_path: str | None = None


class BrokerAclInfoAnswer(Header):
    """52: which access configuration a broker has; versions are the JSON of a DataVersion, one or one a file."""

    version: str | None = None
    all_acl_file_version: str | None = None
    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None


class DeleteSubscriptionGroupHeader(Header):
    """207: the group that goes, with or without its offsets."""

    group_name: str | None = None
    remove_offset: bool = False


class GroupHeader(Header):
    """343, 352: a consumer group."""

    group: str | None = None


class ProducerGroupHeader(Header):
    """204: a producer group."""

    producer_group: str | None = None


class GetConsumeStatsHeader(Header):
    """208: how far a group is, in one topic or in all."""

    consumer_group: str | None = None
    topic: str | None = None


class GetBrokerConsumeStatsHeader(Header):
    """317: how far all groups are; or those that consume in order."""

    is_order: bool = False


class TopicOfGroupHeader(Header):
    """303, 345: a topic and a group that reads it."""

    topic: str | None = None
    group: str | None = None


class CorrectionOffsetHeader(Header):
    """308: the smallest offsets among groups; lists have commas."""

    filter_groups: str | None = None
    compare_group: str | None = None
    topic: str | None = None


class CloneGroupOffsetHeader(Header):
    """314: one group's offsets for another."""

    src_group: str | None = None
    dest_group: str | None = None
    topic: str | None = None
    offline: bool = False


class BrokerStatsHeader(Header):
    """315: one statistic of one key."""

    stats_name: str | None = None
    stats_key: str | None = None


class QueryConsumeQueueHeader(Header):
    """321: some entries of a consume queue; with a group, what its filter makes of them."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


class ResumeCheckHalfMessageHeader(Header):
    """323: a half message that was given up and shall be asked about again."""

    msg_id: str | None = None
