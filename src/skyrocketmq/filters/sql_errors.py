"""What is wrong with an SQL92 expression, and where: the text with a mark below the place."""

from __future__ import annotations

from typing import Final

from skyrocketmq.errors import IllegalArgument

__all__ = ["SqlError"]

SHOWN_BEFORE: Final = 40  # characters of the expression around the place; an expression may be very long
SHOWN_AFTER: Final = 30


class SqlError(IllegalArgument):
    """An expression that cannot be used. `at` is the place in its text, from 0; the message shows it.

    '>' needs a number or a property, not text
        price > 'cheap'
                ^
    """

    def __init__(self, reason: str, expression: str, at: int) -> None:
        self.reason = reason
        self.expression = expression
        self.at = at
        super().__init__(f"{reason}\n{pointed_at(expression, at)}")


def pointed_at(expression: str, at: int) -> str:
    """The expression, or the part of it around the place, with a caret below the place."""
    begin, end = max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER
    before = ("..." if begin else "") + _on_one_line(expression[begin:at])
    after = _on_one_line(expression[at:end]) + ("..." if end < len(expression) else "")
    return f"    {before}{after}\n    {' ' * len(before)}^"


def _on_one_line(text: str) -> str:
    return "".join([character if character.isprintable() else " " for character in text])
