"""`skyrocketmq bench producer|consumer`: the flags and the printed columns of Apache's benchmark programs.

A switch is `-k true`, as there. What Apache calls threads are tasks that each send one message after the other, or the
handlers that may run at once.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skyrocketmq.cli.bench_consuming import counting_handler, run_consumer
from skyrocketmq.cli.bench_figures import ConsumeFigures, SendFigures
from skyrocketmq.cli.bench_sending import ASYNC_IN_FLIGHT, MessageMaker, SendLoad, run_senders
from skyrocketmq.cli.client_options import namesrv_or_default, shared_options
from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import LogLevel, LogLevelOption
from skyrocketmq.cli.run import run_until_stopped
from skyrocketmq.model import SQL92_EXPRESSION, TAG_EXPRESSION
from skyrocketmq.model.names import BENCHMARK_TOPIC
from skyrocketmq.ports import SystemClock

if TYPE_CHECKING:
    from skyrocketmq.client.settings import SharedOptions

__all__ = ["bench"]

DEFAULT_ACCESS_KEY: Final = "rocketmq2"
DEFAULT_SECRET_KEY: Final = "12345678"  # both as in Apache's example of an ACL file

bench = typer.Typer(
    name="bench",
    help="Measure a cluster, as Apache's benchmark programs do.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Topic = Annotated[str, typer.Option("-t", "--topic", help="Topic name.")]
NamesrvAddr = Annotated[
    str | None,
    typer.Option("-n", "--namesrvAddr", metavar="ADDRESS[;ADDRESS]", help="Name servers; else those of NAMESRV_ADDR."),
]
Trace = Annotated[str, typer.Option("-m", "--msgTraceEnable", metavar="true|false", help="Not here: only false.")]
Acl = Annotated[str, typer.Option("-a", "--aclEnable", metavar="true|false", help="Sign requests.")]
AclAccessKey = Annotated[str, typer.Option("-ak", "--accessKey", help="Access key for signing.")]
AclSecretKey = Annotated[str, typer.Option("-sk", "--secretKey", help="Secret key for signing.")]


@bench.command()
def producer(
    topic: Topic = BENCHMARK_TOPIC,
    thread_count: Annotated[int, typer.Option("-w", "--threadCount", min=1, help="Senders at once.")] = 64,
    message_size: Annotated[int, typer.Option("-s", "--messageSize", min=1, help="Bytes of a message's body.")] = 128,
    key_enable: Annotated[str, typer.Option("-k", "--keyEnable", metavar="true|false", help="Set a key.")] = "false",
    property_size: Annotated[int, typer.Option("-p", "--propertySize", min=0, help="Characters of properties.")] = 0,
    tag_count: Annotated[int, typer.Option("-l", "--tagCount", min=0, help="How many different tags.")] = 0,
    quantity: Annotated[int, typer.Option("-q", "--messageQuantity", min=0, help="0: until it is stopped.")] = 0,
    delay_enable: Annotated[
        str, typer.Option("-d", "--delayEnable", metavar="true|false", help="Delay them.")
    ] = "false",
    delay_level: Annotated[int, typer.Option("-e", "--delayLevel", min=1, help="By which level.")] = 1,
    async_enable: Annotated[
        str,
        typer.Option("-y", "--asyncEnable", metavar="true|false", help=f"Keep {ASYNC_IN_FLIGHT} sends in flight."),
    ] = "false",
    trace_enable: Trace = "false",
    acl_enable: Acl = "false",
    access_key: AclAccessKey = DEFAULT_ACCESS_KEY,
    secret_key: AclSecretKey = DEFAULT_SECRET_KEY,
    namesrv: NamesrvAddr = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Send messages as fast as the cluster takes them, and print every ten seconds how fast that is."""
    from skyrocketmq.client.producer import Producer  # late, so that --help does not wait for it

    _refuse_trace(trace_enable)
    is_async = _is_true(async_enable)
    load = SendLoad(
        topic=topic,
        sender_count=ASYNC_IN_FLIGHT if is_async else thread_count,
        message_bytes=message_size,
        has_keys=_is_true(key_enable),
        property_characters=property_size,
        tag_count=tag_count,
        quantity=quantity,
        delay_level=delay_level if _is_true(delay_enable) else 0,
    )
    print(
        f"topic: {topic} threadCount: {1 if is_async else thread_count} messageSize: {message_size} "
        f"keyEnable: {_word(key_enable)} propertySize: {property_size} tagCount: {tag_count} "
        f"traceEnable: {_word(trace_enable)} aclEnable: {_word(acl_enable)} messageQuantity: {quantity}\n"
        f"delayEnable: {_word(delay_enable)} delayLevel: {delay_level}\n"
        f"asyncEnable: {_word(async_enable)}",
        flush=True,
    )
    sending = Producer(
        "benchmark_producer",
        namesrv=namesrv_or_default(namesrv),
        compress_from_bytes=2**31 - 1,  # what is measured is sending, not compressing
        **_shared(acl_enable, access_key, secret_key),
    )
    maker = MessageMaker(load, random.Random())
    with logging_to(None, level=log_level):
        run_until_stopped(lambda stop: run_senders(sending, maker, load, SendFigures(), stop, SystemClock()))


@bench.command()
def consumer(
    topic: Topic = BENCHMARK_TOPIC,
    thread_count: Annotated[int, typer.Option("-w", "--threadCount", min=1, max=1000, help="Handlers at once.")] = 20,
    group: Annotated[str, typer.Option("-g", "--group", help="Consumer group.")] = "benchmark_consumer",
    suffix_enable: Annotated[
        str, typer.Option("-p", "--groupSuffixEnable", metavar="true|false", help="Add a number to the group's name.")
    ] = "false",
    filter_type: Annotated[
        str | None, typer.Option("-f", "--filterType", metavar="TAG|SQL92", help="Kind of the expression.")
    ] = None,
    expression: Annotated[
        Path | None, typer.Option("-e", "--expression", metavar="FILE", help="A file that holds the expression.")
    ] = None,
    fail_rate: Annotated[
        float, typer.Option("-r", "--failRate", min=0.0, max=1.0, help="The part of messages that fail.")
    ] = 0.0,
    trace_enable: Trace = "false",
    acl_enable: Acl = "false",
    access_key: AclAccessKey = DEFAULT_ACCESS_KEY,
    secret_key: AclSecretKey = DEFAULT_SECRET_KEY,
    namesrv: NamesrvAddr = None,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Consume messages, and print every ten seconds how many came and how old they were."""
    from skyrocketmq.client.push_consumer import PushConsumer  # late, so that --help does not wait for it

    _refuse_trace(trace_enable)
    clock = SystemClock()
    if _is_true(suffix_enable):
        group = f"{group}_{clock.now_ms() % 100}"
    print(
        f"topic: {topic}, threadCount {thread_count}, group: {group}, suffix: {suffix_enable}, "
        f"filterType: {filter_type or 'null'}, expression: {expression or 'null'}, "
        f"msgTraceEnable: {_word(trace_enable)}, aclEnable: {_word(acl_enable)}",
        flush=True,
    )
    consuming = PushConsumer(
        group,
        namesrv=namesrv_or_default(namesrv),
        concurrency=thread_count,
        **_shared(acl_enable, access_key, secret_key),
    )
    figures = ConsumeFigures()
    handler = counting_handler(figures, fail_rate=fail_rate, clock=clock, chance=random.Random())
    tags, sql = _filter(filter_type, expression)
    consuming.subscribe(topic, tags, handler, sql=sql)
    with logging_to(None, level=log_level):
        run_until_stopped(lambda stop: run_consumer(consuming, figures, stop, clock))


def _filter(filter_type: str | None, expression: Path | None) -> tuple[str, str | None]:
    """The tags and the SQL92 expression that are asked for; both options have to be there, as in Apache's program."""
    if filter_type is None or expression is None:
        return "*", None
    if filter_type not in (TAG_EXPRESSION, SQL92_EXPRESSION):
        raise typer.BadParameter(f"-f {filter_type}: say {TAG_EXPRESSION} or {SQL92_EXPRESSION}")
    text = expression.read_text(encoding="utf-8").strip()
    print(f"Expression: {text}", flush=True)
    return (text, None) if filter_type == TAG_EXPRESSION else ("*", text)


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"  # as Java reads it: anything else is false


def _word(text: str) -> str:
    return "true" if _is_true(text) else "false"


def _shared(acl_enable: str, access_key: str, secret_key: str) -> SharedOptions:
    is_signed = _is_true(acl_enable)
    options = shared_options(
        access_key=access_key if is_signed else None, secret_key=secret_key if is_signed else None, tls=False
    )
    options["binary_headers"] = True  # as Apache's programs
    return options


def _refuse_trace(trace_enable: str) -> None:
    if _is_true(trace_enable):
        raise typer.BadParameter("-m true: this client writes no message trace; leave it out")
