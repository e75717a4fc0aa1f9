"""The first pass of an audit without a JVM: all that its tasks would do, done here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from skyrocketmq.spark.jobs.audit_plan import AuditPlan, plan_audit
from skyrocketmq.spark.jobs.audit_tasks import SUMMARY_SCHEMA, summary_rows
from skyrocketmq.spark.store_options import StoreOptions

NAMES = [one.split()[0] for one in SUMMARY_SCHEMA.split(",")]


class FirstPass(NamedTuple):
    """The plan, what tasks hand over, and the (kind, part of the log) whose sides differ."""

    plan: AuditPlan
    rows: list[dict[str, Any]]
    differing: list[tuple[str, int]]

    def found(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == "found"]

    def count(self, side: str) -> int:
        return sum(row["amount"] for row in self.rows if (row["kind"], row["side"]) == ("read", side))


def first_pass(root: Path) -> FirstPass:
    plan = plan_audit(StoreOptions.parse({"path": str(root), "partitionBytes": "100000"}))
    made = summary_rows(range(len(plan.groups)), plan.groups, plan.starts, plan.rules)
    rows = [dict(zip(NAMES, row, strict=True)) for row in made]
    sums: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}
    for row in rows:
        if row["kind"] in ("cells", "entries"):
            sides = sums.setdefault((row["kind"], row["part"]), {})
            amount, digest = sides.get(row["side"], (0, 0))
            sides[row["side"]] = (amount + row["amount"], digest ^ row["digest"])
    differing = sorted(place for place, sides in sums.items() if sides.get("log") != sides.get("other"))
    return FirstPass(plan, rows, differing)
