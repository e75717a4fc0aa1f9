"""What went wrong, in one line: Spark wraps an error of ours in several of its own, with the stack of each."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["cause_of"]

# As Python prints an exception at the end of a stack: the class with its module, and the message.
_OURS: Final = re.compile(r"^\s*(?:Caused by: )?(?:[\w.]+Exception: )?skyrocketmq\.[\w.]*?(\w+): (.+)$", re.MULTILINE)
_ANY: Final = re.compile(r"^(?:: )?(?:\w+\.)*(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CLASS: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*")


def cause_of(error: BaseException) -> str:
    """The fullest message of an error of ours, else that of the first one that is named, else the first line.

    Where one of ours was raised because of another, it says what that one said, and more.
    """
    text = str(error)
    ours = [str(message).strip() for _, message in _OURS.findall(text)]
    if ours:
        return max(ours, key=len)
    named = _ANY.findall(text)
    if named:
        return str(named[0][1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CLASS.sub("", first)
