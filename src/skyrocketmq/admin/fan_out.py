"""Asking several servers at once, and saying what came of it.

Rule: whoever asks several servers gets everything, or a `PartialFailure` that names those who failed and holds what the
others gave. Nothing is ever left out in silence. Where one server was asked, and where all fail for the same reason, it
is that server's own error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from skyrocketmq.errors import MQError, PartialFailure

__all__ = ["ask_each", "ask_each_for"]

AT_ONCE_MAX: Final = 32

Target = TypeVar("Target")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


async def ask_each(
    what: str, targets: Iterable[Target], work: Callable[[Target], Awaitable[Answer]]
) -> dict[Target, Answer]:
    """The answer of each target, by target and in their order. `what` begins the text of a failure."""
    return await ask_each_for(what, targets, work, lambda answers: answers)


async def ask_each_for(
    what: str,
    targets: Iterable[Target],
    work: Callable[[Target], Awaitable[Answer]],
    combine: Callable[[dict[Target, Answer]], Result],
) -> Result:
    """The same, with the answers combined: also those of the part that answered, where a part has failed."""
    asked = list(dict.fromkeys(targets))
    answers: dict[Target, Answer] = {}
    failures: dict[str, MQError] = {}
    turn = asyncio.Semaphore(AT_ONCE_MAX)

    async def ask(target: Target) -> None:
        async with turn:
            try:
                answers[target] = await work(target)
            except PartialFailure as error:  # of a question that was itself put to several
                answers[target] = error.result
                failures.update(error.failures)
            except MQError as error:
                failures[str(target)] = error

    await asyncio.gather(*(ask(target) for target in asked))
    result = combine({target: answers[target] for target in asked if target in answers})
    if failures:
        raise _failure(what, failures, len(asked), result, is_empty=not answers)
    return result


def _failure(
    what: str, failures: Mapping[str, MQError], asked_count: int, result: object, *, is_empty: bool
) -> MQError:
    first = next(iter(failures.values()))
    if is_empty and len({type(error) for error in failures.values()}) == 1:
        if len(failures) > 1:
            first.add_note(f"{what}: the same from all of {', '.join(failures)}")
        return first
    reasons = "; ".join(f"{server}: {error}" for server, error in failures.items())
    return PartialFailure(
        f"{what}: {len(failures)} of {max(asked_count, len(failures))} failed. {reasons}. "
        "The others have answered; try again for these",
        failures=failures,
        result=result,
    )
