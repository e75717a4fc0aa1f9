"""What has to be true of every run, each a function over the evidence of its history.

`check` runs them all. `evidence` sorts a history, `violation` is what a check finds. `promises` says which messages
have to be kept, `promotions` what a change of masters leaves open. The checks: `keeping`, `contents`, `ordering`,
`timing`, `endings`, `progress`, `replicas`. All are pure: they read a history, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from skyrocketmq.testing.simulation.checks.contents import nothing_is_invented, one_offset_one_message
from skyrocketmq.testing.simulation.checks.endings import dead_once, transactions_hold
from skyrocketmq.testing.simulation.checks.evidence import Evidence
from skyrocketmq.testing.simulation.checks.keeping import (
    acknowledged_is_stored,
    all_is_settled,
    broadcast_sees_all,
    stored_is_consumed,
)
from skyrocketmq.testing.simulation.checks.ordering import (
    keys_are_in_order,
    one_owner_at_a_time,
    orderly_skips_nothing,
    queues_are_in_order,
)
from skyrocketmq.testing.simulation.checks.progress import progress_goes_on
from skyrocketmq.testing.simulation.checks.replicas import slaves_are_prefixes
from skyrocketmq.testing.simulation.checks.timing import delays_are_kept, retries_wait
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import History

__all__ = ["CHECKS", "Evidence", "Violation", "check"]

CHECKS: tuple[Callable[[Evidence], Iterator[Violation]], ...] = (
    nothing_is_invented,
    one_offset_one_message,
    queues_are_in_order,
    acknowledged_is_stored,
    transactions_hold,
    dead_once,
    delays_are_kept,
    retries_wait,
    one_owner_at_a_time,
    keys_are_in_order,
    orderly_skips_nothing,
    progress_goes_on,
    slaves_are_prefixes,
    stored_is_consumed,
    broadcast_sees_all,
    all_is_settled,
)
# One broken promise is often broken for many messages; the first few tell the story.
VIOLATIONS_OF_A_CHECK_MAX = 5


def check(history: History) -> list[Violation]:
    """Every promise that the run broke, the most telling first."""
    evidence = Evidence(history)
    return [found for each in CHECKS for found in islice(each(evidence), VIOLATIONS_OF_A_CHECK_MAX)]
