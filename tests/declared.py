"""What every request and its answer carry, by code: as the servers declare it, and of the client as written here."""

from __future__ import annotations

import msgspec

from skyrocketmq.broker.requests import REQUESTS as BROKER_REQUESTS
from skyrocketmq.nameserver.handlers import NameServerHandlers
from skyrocketmq.net import Declaration, declared_by
from skyrocketmq.wire.bodies_clients import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
    ResetOffsets,
)
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_clients import (
    CheckTransactionStateHeader,
    ConsumeMessageDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
)
from skyrocketmq.wire.headers_codec import Header, NoFields
from skyrocketmq.wire.headers_send import PushReplyMessageHeader

NAME_SERVER_REQUESTS = declared_by(NameServerHandlers)
SERVER_REQUESTS: dict[int, Declaration] = {**BROKER_REQUESTS, **NAME_SERVER_REQUESTS}
Body = type[msgspec.Struct] | str


def of_client(code: RequestCode, header: type[Header], body: Body = "", answer_body: Body = "") -> Declaration:
    return Declaration(code=code, meaning="", needs=None, header=header, body=body, answer_body=answer_body)


# What a broker asks of a client; 307 and 309 are relayed as they are, so brokers declare them alike.
CLIENT_REQUESTS: dict[int, Declaration] = {
    declared.code: declared
    for declared in (
        of_client(RequestCode.CHECK_TRANSACTION_STATE, CheckTransactionStateHeader, "record"),
        of_client(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupHeader),
        of_client(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader, ResetOffsets),
        of_client(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusHeader, "", ConsumerStatus),
        of_client(RequestCode.GET_CONSUMER_RUNNING_INFO, ConsumerRunningInfoHeader, "", ConsumerRunningInfo),
        of_client(
            RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectlyHeader, "record", ConsumeMessageDirectlyResult
        ),
        of_client(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, PushReplyMessageHeader, "message body"),
    )
}
ALL_REQUESTS: dict[int, Declaration] = {**CLIENT_REQUESTS, **SERVER_REQUESTS}

REQUEST_HEADERS: dict[int, type[Header]] = dict.fromkeys(map(int, RequestCode), NoFields) | {
    code: declared.header for code, declared in ALL_REQUESTS.items()
}
RESPONSE_HEADERS: dict[int, type[Header]] = dict.fromkeys(map(int, RequestCode), NoFields) | {
    code: declared.answer for code, declared in ALL_REQUESTS.items()
}
REQUEST_BODIES: dict[int, type[msgspec.Struct]] = {
    code: declared.body for code, declared in ALL_REQUESTS.items() if not isinstance(declared.body, str)
}
RESPONSE_BODIES: dict[int, type[msgspec.Struct]] = {
    code: declared.answer_body for code, declared in ALL_REQUESTS.items() if not isinstance(declared.answer_body, str)
}
