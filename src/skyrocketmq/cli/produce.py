"""`skyrocketmq produce`: lines of standard input become messages."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated

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
    split_pairs,
)
from skyrocketmq.cli.input_lines import InputLines
from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import LogLevel, LogLevelOption
from skyrocketmq.cli.run import run_until_stopped
from skyrocketmq.errors import ClientError, MQError

if TYPE_CHECKING:
    from skyrocketmq.client.producer import Producer
    from skyrocketmq.client.send_result import SendResult
    from skyrocketmq.model import Message

__all__ = ["produce"]


def produce(
    topic: Annotated[str, typer.Argument(help="Where the messages go.")],
    namesrv: Namesrv = None,
    group: Annotated[str, typer.Option(help="The producer group.")] = "skyrocketmq_produce",
    tags: Annotated[str | None, typer.Option(help="The tag of every message.")] = None,
    keys: Annotated[
        list[str] | None, typer.Option("--key", help="A key of every message; may be given several times.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property of every message; several times."),
    ] = None,
    delay: Annotated[int, typer.Option(min=0, metavar="LEVEL", help="Delay level, 1 (1 s) to 18 (2 h).")] = 0,
    in_flight: Annotated[
        int, typer.Option(min=1, max=10_000, help="Messages on their way at once; 1 keeps the order of the lines.")
    ] = 64,
    timeout: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="Limit for each message.")] = 3.0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing for each message.")] = False,
    output: OutputOption = Output.TEXT,
    access_key: AccessKey = None,
    secret_key: SecretKey = None,
    tls: UseTls = False,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Send each line of standard input as a message, until it ends or Ctrl-C; empty lines are skipped.

    Stops at the first line that cannot be sent, with exit code 1.
    """
    from skyrocketmq.client.producer import Producer  # late, so that --help does not wait for it
    from skyrocketmq.model import Message

    given = split_pairs(properties, option="--property")

    def message_of(line: bytes) -> Message:
        return Message(topic, line, tags=tags, keys=keys or (), properties=given, delay_level=delay)

    message_of(b"to find mistakes in the options before anything is sent")
    producer = Producer(
        group,
        namesrv=namesrv_or_default(namesrv),
        send_timeout_s=timeout,
        **shared_options(access_key=access_key, secret_key=secret_key, tls=tls),
    )
    show = _show_nothing if quiet else _show_json if output is Output.JSON else _show_text
    with logging_to(None, level=log_level):
        run_until_stopped(lambda stop: _produce(producer, message_of, in_flight, show, stop))


async def _produce(
    producer: Producer,
    message_of: Callable[[bytes], Message],
    in_flight: int,
    show: Callable[[SendResult], None],
    stop: asyncio.Event,
) -> None:
    lines = InputLines(sys.stdin.fileno())
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda _: lines.end())
    window = _Window(in_flight)
    empty_count = 0
    async with producer:
        report = asyncio.create_task(_report(window, lines, show))
        number = 0
        async for line in lines:
            number += 1
            if not line:
                empty_count += 1
                continue
            await window.wait_for_room()
            if window.is_failed:
                break
            window.put(number, producer.send(message_of(line)))
        window.end()
        sent_count, failure = await report
    stopping.cancel()
    skipped = f", {empty_count} empty lines skipped" if empty_count else ""
    print(f"{sent_count} sent{skipped}", file=sys.stderr, flush=True)
    if failure is not None:
        raise failure


class _Window:
    """The sends that are under way, oldest first, and no more than a limit."""

    def __init__(self, limit: int) -> None:
        self._room = asyncio.Semaphore(limit)
        self._sends: asyncio.Queue[tuple[int, asyncio.Task[SendResult]] | None] = asyncio.Queue()
        self.is_failed = False

    async def wait_for_room(self) -> None:
        await self._room.acquire()

    def put(self, number: int, send: Coroutine[object, object, SendResult]) -> None:
        """Start a send, for which room has been waited for."""
        self._sends.put_nowait((number, asyncio.create_task(send)))

    def end(self) -> None:
        self._sends.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[tuple[int, asyncio.Task[SendResult]]]:
        """Each send with its number; it leaves the window when the next one is asked for."""
        while (send := await self._sends.get()) is not None:
            yield send
            self._room.release()


async def _report(
    window: _Window, lines: InputLines, show: Callable[[SendResult], None]
) -> tuple[int, MQError | OSError | None]:
    """Show what became of each line, in their order; after a failure read no further, and see the rest through."""
    sent_count = 0
    failure: MQError | OSError | None = None
    async for number, send in window:
        try:
            result = await send
            sent_count += 1
            show(result)
        except MQError as error:
            failure = failure or ClientError(f"line {number} was not sent: {error}")
        except OSError as error:  # nobody reads what is shown
            failure = failure or error
        if failure is not None:
            window.is_failed = True
            lines.end()
    return sent_count, failure


def _show_nothing(result: SendResult) -> None:
    pass


def _show_text(result: SendResult) -> None:
    queue = result.queue
    print(
        f"{result.status.value} {result.msg_id} {queue.broker_name} {queue.queue_id} {result.queue_offset}", flush=True
    )


def _show_json(result: SendResult) -> None:
    fields = {
        "status": result.status.value,
        "msg_id": result.msg_id,
        "offset_msg_id": result.offset_msg_id,
        "broker": result.queue.broker_name,
        "queue_id": result.queue.queue_id,
        "queue_offset": result.queue_offset,
    }
    print(json.dumps(fields), flush=True)
