"""The broker: sends, pulls, latencies, CPU time, memory, time until ready.

Both brokers are started on empty stores and stay up. Each gets 2 million messages of 128 B, which also let Apache's
code get compiled, then its memory is read, and two queues are filled. Then one thing after the other is measured, in
short turns of the two: pulls; sends of every form; sends at half load; Apache's Java producer; delivery to a consumer
that waits. While one is measured the other has nothing to do. The speed of a machine that others share drifts by a
factor of two within minutes: only what was measured seconds apart can be compared. "Half load" is one rate for both:
half of what Apache's broker took at most in this run.

On a machine that others use too, `--calm` waits for quiet moments, and only the quieter half of a measurement counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from tests.interop import toolchain
from tests.interop.apache import Apache
from tests.interop.toolchain import Toolchain

from benchmarks import observe
from benchmarks.broker_frames import FramePool, SendForm, Traffic
from benchmarks.broker_java import THREADS, run_java_producer
from benchmarks.broker_load import Sender, run_count, run_full, run_paced
from benchmarks.broker_pulls import CONTIGUOUS, SCATTERED, WAITED_TOPIC, Filled, QueueFiller, run_delivery, run_pulls
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.broker_settings import Settings, add_arguments
from benchmarks.load import connect
from benchmarks.meter import Outcome
from benchmarks.report import APACHE, Better, Report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "broker"
CONNECTIONS = 2
IN_FLIGHT = 128
SMALL, LARGE = 128, 1024
PULLED = {"contiguous": CONTIGUOUS, "scattered": SCATTERED}
SEND_FORMS = [
    SendForm(size, binary=binary, has_keys=has_keys)
    for size in (SMALL, LARGE)
    for has_keys in (False, True)
    for binary in (False, True)
]
HALF_LOAD_FORMS = [SendForm(LARGE), SendForm(LARGE, binary=True)]
GOAL_RATES = {SMALL: 1.0, LARGE: 1.3}
GOAL_CPU = 0.5
GOAL_PULL_RATE = 1.0
GOAL_P99 = 1.0
GOAL_MEMORY = 0.1
GOAL_READY = 0.2
DELIVERY_LIMIT_MS = 10.0
CALM_SHARE = 0.2  # of a core, used by others: quiet enough to begin
QUIET_SHARE = 0.25  # and quiet enough to count
ATTEMPTS = 3


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    settings = Settings.of(arguments)
    shown = {
        "rounds": str(settings.rounds),
        "seconds a load": f"{settings.seconds:g}",
        "connections": str(CONNECTIONS),
        "in flight on each": str(IN_FLIGHT),
    }
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=settings.directory) as directory:
        benchmark = BrokerBenchmark(settings, Report(NAME, shown), Path(directory))
        benchmark.run()
        return benchmark.report


class BrokerBenchmark:
    """All rounds. What is sent is encoded once for all of them."""

    def __init__(self, settings: Settings, report: Report, directory: Path) -> None:
        self.report = report
        self._settings = settings
        self._directory = directory
        self._toolchain: Toolchain | None = None
        apache: Apache | None = None
        if APACHE in settings.servers or "java" in settings.parts:
            self._toolchain = toolchain.prepare()
            apache = Apache(self._toolchain, directory / "apache")
        self._servers = Servers(directory, apache)
        self._traffic = Traffic()
        self._pools: dict[SendForm, list[FramePool]] = {}
        self._filled: dict[tuple[str, str], Filled] = {}  # by server and kind of queue
        self._filler = QueueFiller(settings.queue_messages) if "pull" in settings.parts else None

    def run(self) -> None:
        settings = self._settings
        if "ready" in settings.parts:
            self._measure_ready()
        if set(settings.parts) == {"ready"}:
            return
        with ExitStack() as running:
            targets = [running.enter_context(self._servers.started(name)) for name in settings.servers]
            for target in targets:
                self._prepare(target)
            for name, measure in self._measurements():
                print(f"  {name}", flush=True)
                for number in range(settings.rounds):
                    # Whoever comes first has the machine as the others left it: they take turns in that, too.
                    for target in targets if number % 2 == 0 else targets[::-1]:
                        measure(target)

    def _prepare(self, target: Target) -> None:
        print(f"  {target.name} is prepared", flush=True)
        traffic = self._traffic
        topics = dict.fromkeys(traffic.topics, traffic.queue_count) | {WAITED_TOPIC: 1}
        create_topics(target, topics | (self._filler.topics if self._filler else {}))
        self._warm_up(target)
        if self._filler is not None:
            self._fill_queues(target, self._filler)

    def _measurements(self) -> Iterator[tuple[str, Callable[[Target], None]]]:
        """What is measured, in this order."""
        parts = self._settings.parts
        if "pull" in parts:
            yield from ((_pull_row(name), partial(self._measure_pulls, name=name)) for name in PULLED)
        if "send" in parts:
            yield from ((_send_row(form), partial(self._measure_sends, form=form)) for form in SEND_FORMS)
        if "latency" in parts:
            yield from ((_half_load(form), partial(self._measure_half_load, form=form)) for form in HALF_LOAD_FORMS)
        if "java" in parts:
            for size in (SMALL, LARGE):
                yield _java_row(size), partial(self._measure_java, body_bytes=size)
        if "delivery" in parts:
            yield "delivery", self._measure_delivery

    def _measure_ready(self) -> None:
        row = self.report.row("time until ready", "ms", Better.LESS, GOAL_READY)
        for attempt in range(self._settings.ready_starts):
            for name in self._settings.servers:
                self._wait_calm()
                taken_ms = self._servers.ready_ms(name)
                self._say(f"{name} ready", f"{taken_ms:,.0f} ms")
                if attempt or self._settings.ready_starts == 1:
                    row.add(name, taken_ms)  # the first start read programs from the disk and compiled ours

    # ------------------------------------------------------------------------------------------------ warm-up, memory

    def _warm_up(self, target: Target) -> None:
        """Many small messages in both encodings; then memory is read."""
        forms = [SendForm(SMALL), SendForm(SMALL, binary=True)]
        if "memory" not in self._settings.parts:
            for form in forms:
                with self._senders(target, form) as senders:
                    run_full(
                        senders,
                        in_flight=IN_FLIGHT,
                        seconds=0.1,
                        warm_up_s=self._settings.jvm_warm_up_s / 2,
                        server_pid=target.pid,
                    )
            return
        for form in forms:
            with self._senders(target, form) as senders:
                count = self._settings.memory_messages // len(forms)
                outcome = run_count(senders, in_flight=IN_FLIGHT, count=count, server_pid=target.pid)
                self._say(f"{count:,} messages, {form.name}", str(outcome))
        memory = observe.rss_anon_bytes(target.pid) / 2**20
        name = f"RssAnon after {self._settings.memory_messages:,} messages"
        self.report.row(name, "MiB", Better.LESS, GOAL_MEMORY).add(target.name, memory)
        self._say(name, f"{memory:,.0f} MiB")

    # ---------------------------------------------------------------------------------------------------------- sends

    def _measure_sends(self, target: Target, *, form: SendForm) -> None:
        with self._senders(target, form) as senders:
            outcome = self._calmly(
                lambda: run_full(
                    senders,
                    in_flight=IN_FLIGHT,
                    seconds=self._settings.seconds,
                    warm_up_s=self._settings.warm_up_s,
                    server_pid=target.pid,
                )
            )
        self._add(_send_row(form), target, outcome, goal=GOAL_RATES[form.body_bytes], goal_cpu=GOAL_CPU)

    def _measure_half_load(self, target: Target, *, form: SendForm) -> None:
        maxima = [
            value for row in self.report.rows if row.name == _send_row(form) for value in row.values.get(APACHE, ())
        ]
        if not maxima:
            self._say(target.name, "left out: it needs what Apache's broker takes at most (part send)")
            return
        rate = median(maxima) / 2
        with self._senders(target, form) as senders:
            outcome = self._calmly(
                lambda: run_paced(
                    senders,
                    rate=rate,
                    seconds=self._settings.seconds,
                    warm_up_s=self._settings.warm_up_s,
                    server_pid=target.pid,
                )
            )
        name = _half_load(form)
        for quantile, label, goal in ((0.5, "p50", None), (0.99, "p99", GOAL_P99)):
            row = self.report.row(f"{label} at {name}", "ms", Better.LESS, goal)
            row.add(target.name, outcome.latency_ms(quantile))
        detail = self.report.row(f"p99.9 at {name}", "ms", Better.LESS, is_detail=True)
        detail.add(target.name, outcome.latency_ms(0.999))
        self._add_details(name, target, outcome)
        p50, p99, worst = (outcome.latency_ms(quantile) for quantile in (0.5, 0.99, 1.0))
        self._say(target.name, f"p50 {p50:.2f}, p99 {p99:.2f}, max {worst:.1f} ms; {outcome}")

    def _measure_java(self, target: Target, *, body_bytes: int) -> None:
        assert self._toolchain is not None, "prepared for this part"
        tools = self._toolchain
        outcome = self._calmly(
            lambda: run_java_producer(
                tools,
                target,
                self._traffic.topics,
                body_bytes=body_bytes,
                seconds=self._settings.seconds,
                warm_up_s=self._settings.java_warm_up_s,
                home=self._directory / "java-producer",
            )
        )
        self._add(_java_row(body_bytes), target, outcome, goal=GOAL_RATES[body_bytes], goal_cpu=GOAL_CPU)

    @contextmanager
    def _senders(self, target: Target, form: SendForm) -> Iterator[list[Sender]]:
        if form not in self._pools:
            self._pools[form] = [FramePool(form, self._traffic) for _ in range(CONNECTIONS)]
        with ExitStack() as opened:
            connections = [opened.enter_context(each) for each in connect(target.address, CONNECTIONS)]
            yield [Sender(each, pool) for each, pool in zip(connections, self._pools[form], strict=True)]

    # ---------------------------------------------------------------------------------------------- pulls and delivery

    def _fill_queues(self, target: Target, filler: QueueFiller) -> None:
        """Fill what is pulled, and pull it until Apache's code is compiled."""
        for name, traffic in PULLED.items():
            filled = self._filled[target.name, name] = filler.fill(target.address, target.pid, traffic)
            warm_up_s = self._settings.jvm_warm_up_s
            run_pulls(target.address, filled, seconds=0.1, warm_up_s=warm_up_s, server_pid=target.pid)

    def _measure_pulls(self, target: Target, *, name: str) -> None:
        outcome = self._calmly(
            lambda: run_pulls(
                target.address,
                self._filled[target.name, name],
                seconds=self._settings.seconds,
                warm_up_s=self._settings.warm_up_s,
                server_pid=target.pid,
            )
        )
        self._add(_pull_row(name), target, outcome, goal=GOAL_PULL_RATE)

    def _measure_delivery(self, target: Target) -> None:
        self._wait_calm()
        taken_ms = [seconds * 1000 for seconds in run_delivery(target.address, count=self._settings.deliveries)]
        row = self.report.row("delivery to a waiting consumer", "ms", Better.LESS, limit=DELIVERY_LIMIT_MS)
        row.add(target.name, median(taken_ms))
        self._say(target.name, f"median {median(taken_ms):.2f}, max {max(taken_ms):.2f} ms")

    # ---------------------------------------------------------------------------------------------------------- figures

    def _add(self, name: str, target: Target, outcome: Outcome, *, goal: float, goal_cpu: float | None = None) -> None:
        self.report.row(name, "1/s", Better.MORE, goal).add(target.name, outcome.rate)
        self.report.row(f"CPU time, {name}", "us", Better.LESS, goal_cpu).add(target.name, outcome.server_cpu_us)
        self._add_details(name, target, outcome)
        self._say(target.name, str(outcome))

    def _add_details(self, name: str, target: Target, outcome: Outcome) -> None:
        for label, unit, value in (
            ("generator's share of a core", "%", outcome.generator_share * 100),
            ("others' share of a core", "%", outcome.others_share * 100),
            ("refused", "messages", float(outcome.refused.total())),
        ):
            self.report.row(f"{label}, {name}", unit, Better.LESS, is_detail=True).add(target.name, value)

    def _say(self, name: str, text: str) -> None:
        print(f"    {name}: {text}", flush=True)

    # ------------------------------------------------------------------------------------------------------------- calm

    def _calmly(self, measure: Callable[[], Outcome]) -> Outcome:
        """Measure; on a machine that is not ours alone, until enough of it was undisturbed, and only that counts."""
        settings = self._settings
        outcome = Outcome(())
        for _ in range(ATTEMPTS if settings.calm_s else 1):
            self._wait_calm()
            outcome = Outcome(outcome.slices + measure().slices)
            quiet_s = sum(each.seconds for each in outcome.slices if each.others_share <= QUIET_SHARE)
            if quiet_s >= settings.seconds / 2:
                break
        return outcome.calmest(settings.seconds / 2) if settings.calm_s else outcome

    def _wait_calm(self) -> None:
        deadline = time.monotonic() + self._settings.calm_s
        while time.monotonic() < deadline:
            before = observe.busy_s()
            time.sleep(1)
            if observe.busy_s() - before < CALM_SHARE:
                return


def _pull_row(name: str) -> str:
    return f"pull 32 x 1 KB, {name}"


def _send_row(form: SendForm) -> str:
    return f"send {form.name}"


def _half_load(form: SendForm) -> str:
    return f"half load, {form.name}"


def _java_row(body_bytes: int) -> str:
    return f"Java producer, {THREADS} threads, {SendForm(body_bytes).name.partition(',')[0]}"
