"""What an administrator can ask of a push consumer: how it is doing (307), and to handle one message now (309)."""

from __future__ import annotations

from dataclasses import fields

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.push_member import PushMember
from skyrocketmq.client.push_options import PushOptions
from skyrocketmq.client.subscriptions import Subscriptions
from skyrocketmq.model import ConsumeType, MessageView
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult, ConsumeResultName, ConsumerRunningInfo
from skyrocketmq.wire.codes import VERSION_4_9_7
from skyrocketmq.wire.versions import version_name

__all__ = ["consume_directly", "running_info"]

_RESULT_NAMES = {
    Verdict.CONSUMED: ConsumeResultName.CR_SUCCESS,
    Verdict.RETRY: ConsumeResultName.CR_LATER,
    Verdict.COMMIT: ConsumeResultName.CR_COMMIT,
    Verdict.ROLLBACK: ConsumeResultName.CR_ROLLBACK,
}


def running_info(member: PushMember, options: PushOptions, subscriptions: Subscriptions) -> ConsumerRunningInfo:
    """The consumer's settings, queues, figures and subscriptions. Names of properties are those that tools look for."""
    instance = member.instance
    properties = {field.name: str(getattr(options, field.name)) for field in fields(options)}
    properties |= {
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in instance.name_servers.addresses),
        "PROP_THREADPOOL_CORE_SIZE": str(options.concurrency),
        "PROP_CONSUMEORDERLY": "true" if options.orderly else "false",
        "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
        "PROP_CLIENT_VERSION": version_name(VERSION_4_9_7),
        "PROP_CONSUMER_START_TIMESTAMP": str(member.started_ms),
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
    member: PushMember, message: MessageView, *, is_orderly: bool
) -> ConsumeMessageDirectlyResult:
    """Let the handler have a message at once, and tell how it went. Nothing is committed or handed back."""
    clock = member.instance.clock
    started = clock.monotonic()
    handler, messages = member.deliveries.cut(member.deliveries.restore([message]))[0]
    remark: str | None = None
    try:
        if handler is None:
            result: ConsumeResult | None = None
            remark = f"topic {messages[0].topic} is not subscribed here"
        else:
            result = await handler.call(messages, member.threads)
    except Exception as error:
        result = None
        remark = f"{type(error).__name__}: {error}"
    return ConsumeMessageDirectlyResult(
        order=is_orderly,
        consume_result=_RESULT_NAMES[result.verdict] if result else ConsumeResultName.CR_THROW_EXCEPTION,
        remark=remark,
        spent_time_ms=round((clock.monotonic() - started) * 1000),
    )
