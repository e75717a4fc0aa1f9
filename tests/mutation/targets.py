"""The modules whose rules are put to the test, and the tests that are asked.

Two tiers: the modules that decide (what is refused, where something begins and ends, who is next, what is believed
after a crash), and with `MODULES=all` everything else in these packages, most of which carries out what was decided.
Left out of both is what is recognition for speed in plain Python (headers by their bytes, shapes, quick ways): it is
proved by comparing it with the general way.
"""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
TESTS = ["tests/store", "tests/ha", "tests/broker", "tests/client"]
LONG = {
    "test_crashes.py",
    "test_model.py",
    "test_stateful.py",
    "test_loop_limit.py",
}  # searches: too long for each mutant
# The packages are imported before pytest could rewrite their assertions; the tests' own are rewritten as ever.
OPTIONS = (
    "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning",
    "-m", "not slow and not system and not interop and not alone",
)  # fmt: skip

LEFT_OUT = {
    "store": {
        "key_hash", "key_feed", "index_file", "intact", "dispatch",
    },
    "broker": {
        "delay_delivery", "transaction_records", "parts", "server",
    },
    "ha": set(),
    "client": {"blocking", "stacks", "trace_messages", "trace_sending", "trace_consuming"},
}  # fmt: skip


RULES = {
    "ha": ("rules", "replicas", "admission"),
    "broker": (
        "transaction_rules", "transaction_table", "queue_locks", "pull_rules", "send_rules", "heartbeat_rules",
        "access_rules", "durability", "consumer_offsets", "dead_letters", "delay_reading", "delay_offsets",
        "hand_backs",
    ),
    "client": (
        "allocation", "rebalance", "batches", "fault_table", "flow_control", "message_cache", "offset_store",
        "queue_choice", "route_rules", "selectors", "start_offsets",
    ),
    "store": (
        "vouchers", "reservations", "offset_waiters", "flushing", "cut_mark", "flushed_note", "checkpoint", "log_end",
        "log_scan", "recovery", "searching", "cleaning", "batch", "statuses",
    ),
}  # fmt: skip


def rule_modules() -> list[str]:
    return [f"{package}.{stem}" for package, stems in RULES.items() for stem in stems]


def all_modules() -> list[str]:
    """By their short names: `ha.rules`."""
    return [
        f"{package}.{path.stem}"
        for package, left_out in LEFT_OUT.items()
        for path in sorted((SOURCE / "skyrocketmq" / package).rglob("*.py"))
        if path.stem not in left_out and path.stem != "__init__"
    ]


def path_of(short: str) -> Path:
    return SOURCE / "skyrocketmq" / (short.replace(".", "/") + ".py")


def module_of(path: Path) -> str | None:
    """The short name of a module of the targets' packages; None for any other file."""
    try:
        parts = path.relative_to(SOURCE / "skyrocketmq").with_suffix("").parts
    except ValueError:
        return None
    return ".".join(parts) if parts[0] in LEFT_OUT else None
