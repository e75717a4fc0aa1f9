"""Asking several servers at once, and saying what came of it.

Rule: asking several servers gives everything, or a `PartialFailure` that names those who failed and holds what the
others gave: no server that is registered and does not answer is left out in silence. One that the name servers have
dropped is not known here, and not asked. Where one server was asked, and where all fail for the same reason, it is that
server's own error.

What takes several such questions uses `Steps`, so that a failure half-way has a result of the right kind: `take` goes
on with what there is, `need` gives up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from skyrocketmq.errors import MQError, PartialFailure

__all__ = ["Steps", "ask_each", "ask_each_for"]

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
                failures.update(error.failures)
                if error.result is not None:
                    answers[target] = error.result
            except MQError as error:
                failures[str(target)] = error

    await asyncio.gather(*(ask(target) for target in asked))
    result = combine({target: answers[target] for target in asked if target in answers})
    if failures:
        raise _failure(what, failures, len(asked), result, is_empty=not answers)
    return result


class Steps:
    """Several questions for one answer: what failed on the way is remembered until the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures: dict[str, MQError] = {}

    async def take(self, work: Awaitable[Answer]) -> Answer:
        """A step that may be answered in part."""
        try:
            return await work
        except PartialFailure as error:
            if error.result is None:
                raise
            self._failures.update(error.failures)
            answer: Answer = error.result
            return answer

    async def need(self, work: Awaitable[Answer]) -> Answer:
        """A step without which there is no result."""
        try:
            return await work
        except PartialFailure as error:
            raise PartialFailure(f"{self._what}: {error}", failures=error.failures, result=None) from error

    async def last(self, work: Awaitable[object], result: Result) -> Result:
        """A step after which the result is known, whatever it brings."""
        try:
            await work
        except PartialFailure as error:
            self._failures.update(error.failures)
        return self.done(result)

    def done(self, result: Result) -> Result:
        """The result; with what has failed on the way, a `PartialFailure` that holds it."""
        if self._failures:
            raise PartialFailure(f"{self._what}: {_reasons(self._failures)}", failures=self._failures, result=result)
        return result


def _reasons(failures: Mapping[str, MQError]) -> str:
    return "; ".join(f"{server}: {error}" for server, error in failures.items())


def _failure(
    what: str, failures: Mapping[str, MQError], asked_count: int, result: object, *, is_empty: bool
) -> MQError:
    first = next(iter(failures.values()))
    if is_empty and len({type(error) for error in failures.values()}) == 1:
        if len(failures) > 1:
            first.add_note(f"{what}: the same from all of {', '.join(failures)}")
        return first
    return PartialFailure(
        f"{what}: {len(failures)} of {max(asked_count, len(failures))} failed. {_reasons(failures)}. "
        "The others have answered; try again for these",
        failures=failures,
        result=result,
    )
