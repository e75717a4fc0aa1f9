r"""The properties of a message: the names that RocketMQ gives a meaning, and how the text is read that holds them.

They are stored and sent as `name \x01 value \x02 name \x01 value` in UTF-8. Reading lives here and not beside the
writing (`wire.properties`), because a `MessageView` reads its own when it is asked for them.

Rule 1: a reserved name may not be set as a user property; the right way to set it is named beside each group.
Rule 2: reading never fails. Bytes that are not UTF-8 become replacement characters, as in Java, so that one producer
        with strange bytes cannot stop a consumer.
Rule 3: a pair without a name or without a value is ignored; of a repeated name the last one counts.
"""

from __future__ import annotations

from typing import Final

# Set through the fields of `Message`.
KEYS: Final = "KEYS"  # several keys, joined by one blank
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"  # "true" or "false": whether the broker answers only after flush and replication
DELAY: Final = "DELAY"  # delay level, 1 to 18

# Set by the sending client.
UNIQ_KEY: Final = "UNIQ_KEY"  # the unique id
TRAN_MSG: Final = "TRAN_MSG"  # "true" on half messages
PGROUP: Final = "PGROUP"  # producer group that answers transaction checks
INSTANCE_ID: Final = "INSTANCE_ID"  # namespace of the producer
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"  # client id of a requester
TTL: Final = "TTL"  # how long the requester waits, ms
MSG_TYPE: Final = "MSG_TYPE"  # "reply" on replies
TRANSACTION_ID: Final = "__transactionId__"

# Set by the broker.
CLUSTER: Final = "CLUSTER"  # cluster name, on every stored message
REAL_TOPIC: Final = "REAL_TOPIC"  # where a delayed or half message belongs
REAL_QUEUE_ID: Final = "REAL_QID"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRAN_END: Final = "TRAN_END"  # commit, rollback, given up or replaced, on the mark of a half message; ours alone
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"

# Set when a message goes back for another attempt.
RETRY_TOPIC: Final = "RETRY_TOPIC"  # the topic it was first consumed from
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"  # offset id of the first copy
HANDED_BACK: Final = "HANDED_BACK"  # on a copy that a client sends: the request that may have made one; ours alone
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"

# Set by the receiving client, never stored.
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
ARRIVE_TIME: Final = "ARRIVE_TIME"

# For users to set.
CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"  # wait before the first transaction check
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"  # light queues, a comma list
START_DELIVER_TIME: Final = "__STARTDELIVERTIME"  # only makes a send appear as delayed in the trace

KEY_SEPARATOR: Final = " "
REPLY_MESSAGE_TYPE: Final = "reply"  # value of MSG_TYPE

RESERVED: Final = frozenset(
    {
        KEYS,
        TAGS,
        WAIT,
        DELAY,
        UNIQ_KEY,
        TRAN_MSG,
        PGROUP,
        INSTANCE_ID,
        CORRELATION_ID,
        REPLY_TO_CLIENT,
        TTL,
        MSG_TYPE,
        CLUSTER,
        REAL_TOPIC,
        REAL_QUEUE_ID,
        MSG_REGION,
        TRACE_ON,
        PUSH_REPLY_TIME,
        INNER_MULTI_QUEUE_OFFSET,
        RETRY_TOPIC,
        ORIGIN_MESSAGE_ID,
        RECONSUME_TIME,
        MAX_RECONSUME_TIMES,
        MIN_OFFSET,
        MAX_OFFSET,
        CONSUME_START_TIME,
        ARRIVE_TIME,
        # Of older releases: unused, and still refused by Apache's clients.
        "BUYER_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
    }
)


def decode_properties(data: bytes | str) -> dict[str, str]:
    """All pairs of a properties text, in the order of writing."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    # One expression takes a quarter less time than a loop, and a consumer may ask this of every message.
    return {
        name: value for pair in text.split("\x02") for name, _, value in (pair.partition("\x01"),) if name and value
    }
