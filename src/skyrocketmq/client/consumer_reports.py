"""What an administrator can ask of a consumer: how it is doing (307), and to handle one message now (309).

Every kind of consumer tells who it is and since when, under the names that tools look for; a push consumer has queues
and figures besides, and it alone has a handler that a message can be given to.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.handler_calls import failed_messages
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.push_member import PushMember
from skyrocketmq.client.push_options import PushOptions
from skyrocketmq.client.subscriptions import Subscriptions
from skyrocketmq.errors import BrokerError, broker_error
from skyrocketmq.model import ConsumeType, MessageView
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult, ConsumeResultName, ConsumerRunningInfo
from skyrocketmq.wire.codes import VERSION_4_9_7, ResponseCode
from skyrocketmq.wire.versions import version_name

__all__ = ["common_properties", "consume_directly", "no_handler", "running_info"]

_ORDERLY_RESULTS = {
    Verdict.CONSUMED: ConsumeResultName.CR_SUCCESS,
    Verdict.RETRY: ConsumeResultName.CR_LATER,
    Verdict.COMMIT: ConsumeResultName.CR_COMMIT,
    Verdict.ROLLBACK: ConsumeResultName.CR_ROLLBACK,
}


def common_properties(instance: ClientInstance, consume_type: ConsumeType, *, started_ms: int) -> dict[str, str]:
    """What a consumer of any kind tells of itself."""
    return {
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in instance.name_servers.addresses),
        "PROP_CONSUME_TYPE": consume_type.value,
        "PROP_CLIENT_VERSION": version_name(VERSION_4_9_7),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
    }


def running_info(member: PushMember, options: PushOptions, subscriptions: Subscriptions) -> ConsumerRunningInfo:
    """A push consumer's settings, queues, figures and subscriptions."""
    instance = member.instance
    properties = {field.name: str(getattr(options, field.name)) for field in fields(options)}
    properties |= common_properties(instance, ConsumeType.CONSUME_PASSIVELY, started_ms=member.started_ms)
    properties |= {
        "PROP_THREADPOOL_CORE_SIZE": str(options.concurrency),
        "PROP_CONSUMEORDERLY": "true" if options.orderly else "false",
    }
    return ConsumerRunningInfo(
        mq_table={
            queue: held.cache.to_info(commit_offset=member.offsets.find(queue) or 0)
            for queue, held in member.held.items()
        },
        properties=properties,
        status_table=member.stats.to_table(instance.clock.monotonic()),
        subscription_set=subscriptions.all(),
    )


async def consume_directly(
    member: PushMember, options: PushOptions, message: MessageView
) -> ConsumeMessageDirectlyResult:
    """Let the handler have a message at once, and tell how it went. Nothing is committed or sent back."""
    clock = member.instance.clock
    started = clock.monotonic()
    member.threads.scope.enter()
    messages = member.deliveries.restore([message])
    handler, _ = member.deliveries.runs(messages)[0]
    consumed_as, remark = ConsumeResultName.CR_THROW_EXCEPTION, None
    try:
        if handler is None:
            remark = f"topic {messages[0].topic} is not subscribed here"
        else:
            result = await handler.call(messages, member.threads)
            consumed_as = _result_name(result, messages, is_orderly=options.orderly)
    except (Exception, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # it is the client that ends, not something that the handler waited for
        remark = f"{type(error).__name__}: {error}"
    return ConsumeMessageDirectlyResult(
        auto_commit=options.auto_commit or not options.orderly,
        consume_result=consumed_as,
        order=options.orderly,
        remark=remark,
        spent_time_ms=round((clock.monotonic() - started) * 1000),
    )


def _result_name(result: ConsumeResult, messages: list[MessageView], *, is_orderly: bool) -> ConsumeResultName:
    if is_orderly:
        return _ORDERLY_RESULTS[result.verdict]
    # Out of order there is nothing to commit or to roll back: both mean that it is consumed.
    return ConsumeResultName.CR_LATER if failed_messages(result, messages) else ConsumeResultName.CR_SUCCESS


def no_handler() -> BrokerError:
    """The answer of a consumer that is asked to handle a message, and only fetches them."""
    return broker_error(
        ResponseCode.SYSTEM_ERROR, "this consumer pulls messages and has no handler for them: ask a push consumer"
    )
