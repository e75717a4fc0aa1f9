"""Mending what `inspection` found, as far as the log or a back-up knows how it was.

Rule 1: planned, saved, then done. The plan lies in the store's directory until it is carried out; every step may run
twice, so a repair that was cut off is simply started again.
Rule 2: nothing is made worse. The log is never changed but for a torn end, which the next start would cut off just the
same; every good record of it is kept, also behind a bad one. A file that is replaced is kept beside the new one.
Rule 3: nothing is written before the lock is held and the log is known to be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import Clock, Disk, FileLock
from skyrocketmq.store.inspection import StoreReport
from skyrocketmq.store.log_files import LogFiles, require_log
from skyrocketmq.store.message_store import MessageStore
from skyrocketmq.store.progress import Progress
from skyrocketmq.store.recovery import Recovered, RecoveryWishes
from skyrocketmq.store.threads import run_to_end

__all__ = ["PLAN_NAME", "RepairPlan", "plan_repair", "repair"]

PLAN_NAME = "repair-plan.json"


class RepairPlan(msgspec.Struct, frozen=True, rename="camel"):
    """What a repair does, in this order."""

    configs: tuple[str, ...] = ()  # files in config/ to be replaced by their .bak
    queues: tuple[tuple[str, int], ...] = ()  # to be built from the log
    index: bool = False  # to be built from the log
    opens: bool = False  # run the recovery of an ordinary start

    @property
    def is_empty(self) -> bool:
        return not (self.configs or self.queues or self.index or self.opens)

    def steps(self) -> list[str]:
        """For people."""
        lines = [f"replace config/{name} by its .bak, and keep it as {name}.broken" for name in self.configs]
        lines += [f"build consume queue {topic}-{queue_id} again from the log" for topic, queue_id in self.queues]
        lines += ["build the index again from the log"] if self.index else []
        lines += ["recover, as a start does: cut a torn end of the log, add what queues and index lack"]
        return [] if self.is_empty else lines


def plan_repair(report: StoreReport) -> RepairPlan:
    """What helps against what was found."""
    has_notes = any(not finding.is_damage for finding in report.findings)
    return RepairPlan(
        configs=tuple(report.broken_configs),
        queues=tuple(report.broken_queues),
        index=report.is_index_broken,
        opens=not report.was_clean or has_notes or report.is_cut_by_next_start,
    )


async def repair(
    plan: RepairPlan,
    config: StoreConfig,
    *,
    disk: Disk,
    clock: Clock,
    lock: FileLock | None = None,
    progress: Progress | None = None,
) -> Recovered:
    """Carry out the plan; `lock` is the store's, if the caller holds it already; `progress` is told in a helper thread.

    Raises `StoreLocked` if a broker has the store, `StoreError` or `OSError`.
    """
    root = config.root_path
    wishes = RecoveryWishes(queues=plan.queues, rebuilds_index=plan.index, progress=progress, trusts_all=True)
    with ExitStack() as locked:
        if lock is None:  # before the first byte is written
            lock = await run_to_end(disk, disk.lock, root / "lock")
            locked.callback(lock.release)
        await run_to_end(disk, _require_log, disk, config)
        await run_to_end(disk, disk.replace, root / PLAN_NAME, msgspec.json.encode(plan))
        await run_to_end(disk, _restore_configs, disk, root / "config", plan.configs)
        async with MessageStore.open(config, disk=disk, clock=clock, wishes=wishes, lock=lock) as store:
            recovered = store.recovered
        await run_to_end(disk, disk.unlink, root / PLAN_NAME)
    return recovered


def _require_log(disk: Disk, config: StoreConfig) -> None:
    """A start without a log begins an empty one and forgets all queues; a repair never does."""
    log = LogFiles(disk, config)
    require_log(disk, config, log)


def _restore_configs(disk: Disk, directory: Path, names: Sequence[str]) -> None:
    for name in names:
        path = directory / name
        if disk.exists(path):
            disk.replace(directory / f"{name}.broken", disk.read(path))
        disk.replace(path, disk.read(directory / f"{name}.bak"))
