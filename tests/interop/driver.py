"""Apache's Java client, driven through a pipe: one JVM for many tests.

The Java side (`java/src/.../Driver.java`) reads one JSON object a line and answers each with one; requests run side by
side there. `Driver.call` is the plain form; the classes below give its answers types and its clients an end:

    with driver.producer("g", namesrv=address) as producer:
        [sent] = producer.send(message("TopicTest", "hello", tags="TagA"))

Blocking, and safe to use from several threads; an asyncio test calls it through `asyncio.to_thread`.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

CALL_TIMEOUT_S = 30.0
START_TIMEOUT_S = 90.0
EXIT_TIMEOUT_S = 15.0
LOG_TAIL_CHARACTERS = 4_000

T = TypeVar("T")
Json = dict[str, Any]


class JavaError(Exception):
    """The Java client threw; `code` is the response code of the broker's or the client's exception."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['type']}: {error['message']}")
        self.type: str = error["type"]
        self.message: str = error["message"]
        self.code: int | None = error.get("code")
        if "cause" in error:
            self.__cause__ = JavaError(error["cause"])


class JavaGone(Exception):
    """The JVM ended before it answered."""


class Queue(msgspec.Struct, frozen=True, order=True):
    topic: str
    broker: str
    queue_id: int


class Sent(msgspec.Struct, frozen=True):
    """What a send gave; with `keep_going`, a failed one has only `error`."""

    status: str | None = None
    msg_id: str | None = None
    offset_msg_id: str | None = None
    queue: Queue | None = None
    queue_offset: int | None = None
    transaction_id: str | None = None
    local_state: str | None = None
    error: Json | None = None


class Received(msgspec.Struct, frozen=True):
    """A message as the Java client gives it to its user."""

    topic: str
    body: bytes
    tags: str | None
    keys: str | None
    properties: dict[str, str]
    flag: int
    msg_id: str
    offset_msg_id: str | None
    broker: str | None
    queue_id: int
    queue_offset: int
    log_offset: int
    born_ms: int
    store_ms: int
    born_host: str
    store_host: str
    reconsume_times: int
    sys_flag: int
    body_crc: int
    store_size: int
    received_ms: int | None = None
    thread: str | None = None
    batch: int | None = None
    answered: str | None = None

    @property
    def text(self) -> str:
        return self.body.decode()


class Pulled(msgspec.Struct, frozen=True):
    status: str
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[Received]


class Offsets(msgspec.Struct, frozen=True):
    min_offset: int
    max_offset: int
    earliest_ms: int


def message(topic: str, body: str | bytes = "", **fields: Any) -> Json:
    """A message to send: `tags`, `keys`, `properties`, `flag`, `delay_level`, `wait_store_ok`; `count=N` stands for N
    messages in whose text, tags and keys `{i}` is the number."""
    if isinstance(body, bytes):
        return {"topic": topic, "body": b64encode(body).decode(), **fields}
    return {"topic": topic, "text": body, **fields}


def large_message(topic: str, *, fill: str, body_bytes: int, **fields: Any) -> Json:
    """A message whose body is `fill` over and over, made on the Java side."""
    return {"topic": topic, "fill": fill, "bytes": body_bytes, **fields}


class Driver:
    """The JVM with Apache's client in it."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self._log = log
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()  # guards _waiting, _is_gone and the pipe to the JVM
        self._is_gone = False
        self._ready: Future[str] = Future()
        with log.open("ab") as errors:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=log.parent
            )
        self._reader = threading.Thread(target=self._read_answers, name="java-driver", daemon=True)
        self._reader.start()
        try:
            self.version = self._ready.result(START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def home(self) -> Path:
        """The home directory of the user that the JVM believes to be run by."""
        return self._log.parent

    def submit(self, op: str, **arguments: Any) -> Future[Any]:
        """Start an operation; its answer comes into the future."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        line = msgspec.json.encode({"id": number, "op": op, **arguments}) + b"\n"
        with self._lock:
            if self._is_gone:
                raise JavaGone(self._said())
            self._waiting[number] = answer
            assert self._child.stdin is not None
            self._child.stdin.write(line)
            self._child.stdin.flush()
        return answer

    def call(self, op: str, *, wait_s: float = CALL_TIMEOUT_S, **arguments: Any) -> Any:
        """Do an operation and return its answer. Raises `JavaError`, `JavaGone`, `TimeoutError`."""
        return self.submit(op, **arguments).result(wait_s)

    def kill(self) -> None:
        """End the JVM at once: its clients say goodbye to no broker."""
        self._child.kill()
        self.close()

    def close(self) -> None:
        """Shut every client down, then the JVM. Closing twice is harmless."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.close()
        except BrokenPipeError:
            pass  # it is gone already
        try:
            self._child.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()
        self._child.stdout.close()

    def mqadmin(self, *arguments: str, namesrv: str, wait_s: float = CALL_TIMEOUT_S) -> str:
        """Run an mqadmin command inside the JVM and return what it printed; at most one runs at a time."""
        printed: str = self.call("mqadmin", wait_s=wait_s, arguments=[*arguments, "-n", namesrv])
        return printed

    def mqadmin_until(self, texts: Sequence[str], *arguments: str, namesrv: str, wait_s: float = CALL_TIMEOUT_S) -> str:
        """The same for a command that never ends by itself: it is interrupted once it has printed all these texts."""
        arguments = (*arguments, "-n", namesrv)
        printed: str = self.call("mqadmin_until", wait_s=wait_s, texts=list(texts), arguments=arguments)
        return printed

    def mqadmin_commands(self) -> list[str]:
        """The names of all commands that mqadmin knows."""
        printed: str = self.call("mqadmin", arguments=[])
        return re.findall(r"^   (\w+) +\S", printed, re.MULTILINE)

    def monitor(self, *, namesrv: str, wait_s: float = CALL_TIMEOUT_S) -> list[Json]:
        """What one round of the monitoring that the command startMonitoring runs every minute reports."""
        reports: list[Json] = self.call("monitor", wait_s=wait_s, namesrv=namesrv)
        return reports

    def producer(self, group: str, *, namesrv: str, **options: Any) -> Producer:
        """`transactional`, `trace`, `compression`, `config={"sendMsgTimeout": 5000}` and what every client takes:
        `instance`, `namespace`, `tls`, `access_key`, `secret_key`."""
        return Producer(self, "producer", group=group, namesrv=namesrv, **options)

    def push_consumer(
        self, group: str, *, namesrv: str, topic: str | None = None, tags: str = "*", **options: Any
    ) -> PushConsumer:
        """`orderly`, `model` (CLUSTERING, BROADCASTING), `from_="first"`, `behaviour={"fail_times": 1}`; for several
        topics or SQL, `subscriptions=[{"topic": ..., "sql": ...}]` instead of `topic`."""
        return PushConsumer(
            self, "push_consumer", group=group, namesrv=namesrv, **_subscriptions(topic, tags), **_renamed(options)
        )

    def pull_consumer(self, group: str, *, namesrv: str, **options: Any) -> PullConsumer:
        return PullConsumer(self, "pull_consumer", group=group, namesrv=namesrv, **options)

    def lite_consumer(
        self, group: str, *, namesrv: str, topic: str | None = None, tags: str = "*", **options: Any
    ) -> LiteConsumer:
        """With a `topic` (or `subscriptions`) it shares the queues of its group; with `queues` it reads just those."""
        return LiteConsumer(
            self, "lite_consumer", group=group, namesrv=namesrv, **_subscriptions(topic, tags), **_renamed(options)
        )

    def admin(self, *, namesrv: str, **options: Any) -> Admin:
        return Admin(self, "admin", namesrv=namesrv, **options)

    def _read_answers(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._take_answer(msgspec.json.decode(line))
        with self._lock:
            self._is_gone = True
            left = [self._ready, *self._waiting.values()]
            self._waiting.clear()
        for future in left:
            if not future.done():
                future.set_exception(JavaGone(self._said()))

    def _take_answer(self, answer: Json) -> None:
        if "ready" in answer:
            self._ready.set_result(answer["ready"])
            return
        with self._lock:
            waiting = self._waiting.pop(answer["id"])
        if "error" in answer:
            waiting.set_exception(JavaError(answer["error"]))
        else:
            waiting.set_result(answer.get("result"))

    def _said(self) -> str:
        return "the JVM ended; it said: " + self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


class JavaClient:
    """A running client inside the JVM; `client_id` is what brokers know it by."""

    _numbers = itertools.count(1)

    def __init__(self, driver: Driver, op: str, **options: Any) -> None:
        self._driver = driver
        self.handle = f"{op}-{next(self._numbers)}"
        self._is_stopped = False
        self.client_id: str = driver.call(op, handle=self.handle, **options)

    def call(self, op: str, *, wait_s: float = CALL_TIMEOUT_S, **arguments: Any) -> Any:
        return self._driver.call(op, wait_s=wait_s, handle=self.handle, **arguments)

    def invoke(self, method: str, *arguments: Any) -> Any:
        """Call any public method of Apache's object; arguments and result as JSON."""
        return self.call("invoke", method=method, arguments=arguments)

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self.call("stop")

    def create_topic(self, topic: str, *, queues: int, key: str = "TBW102") -> None:
        self.call("create_topic", topic=topic, queues=queues, key=key)

    def offsets(self, queue: Queue) -> Offsets:
        return _typed(self.call("offsets", queue=queue), Offsets)

    def offset_at(self, queue: Queue, time_ms: int) -> int:
        offset: int = self.call("offset_at", queue=queue, time_ms=time_ms)
        return offset

    def query(self, topic: str, key: str, **options: Any) -> list[Received]:
        """Messages by key: `max`, `begin_ms`, `end_ms`."""
        return _typed(self.call("query", topic=topic, key=key, **options), list[Received])

    def view(self, msg_id: str, *, topic: str | None = None) -> Received:
        """A message by its offset id alone, or by either id and its topic."""
        arguments: Json = {"topic": topic} if topic else {}
        return _typed(self.call("view", msg_id=msg_id, **arguments), Received)

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Producer(JavaClient):
    def send(self, *messages: Json, mode: str = "sync", **options: Any) -> list[Sent]:
        """`mode` sync, async or oneway (which gives nothing); `queue`, `shard_key`, `timeout_ms`, `keep_going`."""
        return _typed(self.call("send", wait_s=60, messages=messages, mode=mode, **options), list[Sent])

    def send_batch(self, *messages: Json, **options: Any) -> Sent:
        """One batch: `mode` sync or async, `queue`."""
        return _typed(self.call("send_batch", messages=messages, **options), Sent)

    def send_in_transaction(self, message: Json, *, local: str, checks: Sequence[str] = ()) -> Sent:
        """`local` is the state after the local step, `checks` what the first check-backs are answered with:
        COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""
        properties = {**message.get("properties", {}), "interop_plan": f"{self.handle}-{next(self._numbers)}"}
        planned = {**message, "properties": properties}
        return _typed(self.call("send_in_transaction", message=planned, local=local, checks=checks), Sent)

    def transaction_checks(self, *, at_least: int = 0, timeout_s: float = 20.0, since: int = 0) -> list[Received]:
        return _typed(_waited(self, "transaction_checks", at_least, timeout_s, since), list[Received])

    def request(self, message: Json, *, timeout_s: float = 3.0) -> Received:
        """Send a request and wait for its reply."""
        reply = self.call("request", wait_s=timeout_s + 10, message=message, timeout_ms=int(timeout_s * 1000))
        return _typed(reply, Received)

    def publish_queues(self, topic: str) -> list[Queue]:
        return _typed(self.call("publish_queues", topic=topic), list[Queue])


class PushConsumer(JavaClient):
    def received(self, *, at_least: int = 0, timeout_s: float = 20.0, since: int = 0) -> list[Received]:
        """What came, from number `since` on, as soon as `at_least` have come in all or the time is up."""
        return _typed(_waited(self, "received", at_least, timeout_s, since), list[Received])

    def behave(self, **behaviour: Any) -> None:
        """From now on: `fail_times`, `fail_text`, `fail_by_throwing`, `delay_ms`, `delay_level`, `suspend_ms`,
        `reply_producer` (a handle), `reply_text`."""
        self.call("behave", behaviour=behaviour)

    def assignment(self) -> list[Queue]:
        return _typed(self.call("assignment"), list[Queue])

    def rebalance(self) -> None:
        """Ask for the routes, send heartbeats and share the queues out again, now instead of at the next turn."""
        self.call("rebalance")

    def consumed_offset(self, queue: Queue) -> int:
        """Persist the offsets, then read the group's offset of this queue from where it is kept."""
        offset: int = self.call("consumed_offset", queue=queue)
        return offset


class PullConsumer(JavaClient):
    def pull(self, queue: Queue, *, offset: int, max_count: int = 32, **options: Any) -> Pulled:
        """`tags` or `sql`; `block=True` asks the broker to hold the request until something comes."""
        return _typed(self.call("pull", wait_s=45, queue=queue, offset=offset, max=max_count, **options), Pulled)

    def queues(self, topic: str) -> list[Queue]:
        return _typed(self.call("subscribe_queues", topic=topic), list[Queue])

    def fetch_offset(self, queue: Queue) -> int:
        offset: int = self.call("fetch_offset", queue=queue)
        return offset

    def update_offset(self, queue: Queue, offset: int) -> None:
        self.call("update_offset", queue=queue, offset=offset)


class LiteConsumer(JavaClient):
    def poll(self, *, at_least: int = 1, timeout_s: float = 20.0) -> list[Received]:
        """Poll until so many messages have come or the time is up."""
        polled = self.call("poll", wait_s=timeout_s + 15, at_least=at_least, timeout_ms=int(timeout_s * 1000))
        return _typed(polled, list[Received])

    def queues(self, topic: str) -> list[Queue]:
        return _typed(self.call("lite_queues", topic=topic), list[Queue])

    def assignment(self) -> list[Queue]:
        return _typed(self.call("lite_assignment"), list[Queue])

    def seek(self, queue: Queue, to: int | str) -> None:
        """To an offset, or to "begin" or "end"."""
        arguments: Json = {"offset": to} if isinstance(to, int) else {"to": to}
        self.call("seek", queue=queue, **arguments)

    def pause(self, *queues: Queue) -> None:
        self.call("pause", queues=queues)

    def resume(self, *queues: Queue) -> None:
        self.call("resume", queues=queues)

    def commit(self, offsets: dict[Queue, int] | None = None) -> None:
        """The given offsets, or where polling has come to."""
        given = [{"queue": queue, "offset": offset} for queue, offset in (offsets or {}).items()]
        arguments: Json = {"offsets": given} if given else {}
        self.call("commit", **arguments)

    def committed(self, queue: Queue) -> int:
        offset: int = self.call("committed", queue=queue)
        return offset

    def offset_for_time(self, queue: Queue, time_ms: int) -> int:
        offset: int = self.call("offset_for_time", queue=queue, time_ms=time_ms)
        return offset


class Admin(JavaClient):
    """Apache's admin client: `invoke("examineTopicRouteInfo", topic)` and so on."""

    def route(self, topic: str) -> Json:
        route: Json = self.invoke("examineTopicRouteInfo", topic)
        return route


def _waited(client: JavaClient, op: str, at_least: int, timeout_s: float, since: int) -> Any:
    return client.call(op, wait_s=timeout_s + 10, at_least=at_least, since=since, timeout_ms=int(timeout_s * 1000))


def _typed(answer: Any, kind: type[T]) -> T:
    return msgspec.convert(answer, kind)


def _subscriptions(topic: str | None, tags: str) -> Json:
    return {"subscriptions": [{"topic": topic, "tags": tags}]} if topic is not None else {}


def _renamed(options: Json) -> Json:
    """`from` is a word of Python's, so callers write `from_`."""
    return {key.rstrip("_"): value for key, value in options.items()}
