"""`skyrocketmq consume`: print the messages of a topic.

Without a group it reads all queues on its own, leaves no trace at the brokers and starts where `--from` says. With a
group it is a member like any other: it shares the queues, goes on where the group was, and commits what it has printed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skyrocketmq.cli.client_options import (
    AccessKey,
    Namesrv,
    Output,
    OutputOption,
    SecretKey,
    UseTls,
    namesrv_or_default,
    shared_options,
)
from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import LogLevel, LogLevelOption
from skyrocketmq.cli.run import run_until_stopped
from skyrocketmq.errors import ClientError
from skyrocketmq.ports import SystemClock

if TYPE_CHECKING:
    from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
    from skyrocketmq.client.message_selector import MessageSelector
    from skyrocketmq.client.start_offsets import ConsumeFrom
    from skyrocketmq.model import MessageQueue, MessageView

__all__ = ["consume"]

OWN_GROUP: Final = (
    "skyrocketmq_consume"  # what requests have to carry when no group was named; nothing is kept under it
)
COMMIT_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is to be printed, and until when."""

    topic: str
    selector: MessageSelector
    start: ConsumeFrom
    is_member: bool
    count: int | None
    timeout_s: float | None
    show: Callable[[MessageView], bytes]


def consume(
    topic: Annotated[str, typer.Argument(help="Whose messages are printed.")],
    namesrv: Namesrv = None,
    group: Annotated[
        str | None, typer.Option(help="Be a member of this group; without one, read everything on one's own.")
    ] = None,
    tags: Annotated[str, typer.Option(metavar="EXPRESSION", help="Only these tags: 'TagA || TagB'.")] = "*",
    sql: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help="Only messages whose properties make this SQL92 expression true."),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="last|first|TIME",
            help="Where to begin: what comes from now on, the beginning, or a time as 2024-05-01T12:00:00. A group "
            "that has been there before goes on where it was.",
        ),
    ] = "last",
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="End when no message has come for so long."),
    ] = None,
    output: OutputOption = Output.TEXT,
    access_key: AccessKey = None,
    secret_key: SecretKey = None,
    tls: UseTls = False,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Print the bodies of messages, one a line, or all about them as JSON, until Ctrl-C.

    Exit code 1 if fewer came than --count asks for.
    """
    # Late, so that --help does not wait for it.
    from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
    from skyrocketmq.client.message_selector import as_selector

    if sql is not None and tags != "*":
        raise typer.BadParameter("messages are chosen by --tags or by --sql: give one of them")
    wanted = _Wanted(
        topic=topic,
        selector=as_selector(tags, sql),
        start=_start_of(start),
        is_member=group is not None,
        count=count,
        timeout_s=timeout,
        show=_as_json if output is Output.JSON else _as_text,
    )
    consumer = LitePullConsumer(
        group or OWN_GROUP,
        namesrv=namesrv_or_default(namesrv),
        consume_from=wanted.start,
        auto_commit=False,
        pull_batch_size=32,
        **shared_options(access_key=access_key, secret_key=secret_key, tls=tls),
    )
    with logging_to(None, level=log_level):
        run_until_stopped(lambda stop: _consume(consumer, wanted, stop))


def _start_of(text: str) -> ConsumeFrom:
    if text == "first":
        return "first"
    if text == "last":
        return "last"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"--from {text}: say last, first, or a time as 2024-05-01T12:00:00") from None


async def _consume(consumer: LitePullConsumer, wanted: _Wanted, stop: asyncio.Event) -> None:
    printed: dict[MessageQueue, int] = {}
    printed_count = 0
    now = SystemClock().monotonic
    async with consumer:
        if wanted.is_member:
            consumer.subscribe(wanted.topic, wanted.selector)
        else:
            await _read_alone(consumer, wanted)
        print(f"waiting for messages of {wanted.topic}", file=sys.stderr, flush=True)
        commit_due = now() + COMMIT_INTERVAL_S
        async for messages in _polls(consumer, wanted, stop):
            for message in messages[: None if wanted.count is None else wanted.count - printed_count]:
                sys.stdout.buffer.write(wanted.show(message) + b"\n")
                printed[message.queue] = message.queue_offset + 1
                printed_count += 1
            sys.stdout.buffer.flush()
            if wanted.is_member and now() >= commit_due:
                await _commit(consumer, printed)
                commit_due = now() + COMMIT_INTERVAL_S
            if printed_count == wanted.count:
                break
        if wanted.is_member:
            await _commit(consumer, printed)
    if wanted.count is not None and printed_count < wanted.count:
        raise ClientError(f"{printed_count} of {wanted.count} messages came")


async def _commit(consumer: LitePullConsumer, printed: Mapping[MessageQueue, int]) -> None:
    """What was printed of queues that are still this member's; others have been given up, with what was committed."""
    assigned = set(consumer.assigned)
    await consumer.commit({queue: offset for queue, offset in printed.items() if queue in assigned})


async def _read_alone(consumer: LitePullConsumer, wanted: _Wanted) -> None:
    """All queues of the topic, from the place that was asked for."""
    queues = await consumer.queues(wanted.topic)
    consumer.assign(queues, wanted.selector)
    for queue in queues:
        if isinstance(wanted.start, datetime):
            await consumer.seek_to_time(queue, wanted.start)
        elif wanted.start == "first":
            await consumer.seek_to_begin(queue)
        else:
            await consumer.seek_to_end(queue)


async def _polls(consumer: LitePullConsumer, wanted: _Wanted, stop: asyncio.Event) -> AsyncIterator[list[MessageView]]:
    """What comes, until it is time to end."""
    stopping = asyncio.create_task(stop.wait())
    try:
        while True:
            polling = asyncio.create_task(
                consumer.poll() if wanted.timeout_s is None else consumer.poll(wanted.timeout_s)
            )
            await asyncio.wait([polling, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not polling.done():
                polling.cancel()
                await asyncio.wait([polling])
                return
            messages = polling.result()
            if messages:
                yield messages
            elif wanted.timeout_s is not None:
                return
    finally:
        stopping.cancel()


def _as_text(message: MessageView) -> bytes:
    return message.body


def _as_json(message: MessageView) -> bytes:
    fields: dict[str, object] = {
        "topic": message.topic,
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.user_properties,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "broker": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "born_timestamp": message.born_timestamp,
        "born_host": message.born_host,
        "store_timestamp": message.store_timestamp,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
    }
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    return json.dumps(fields, ensure_ascii=False).encode()
