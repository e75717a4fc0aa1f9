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
    """The message of the innermost error of ours, else of the first one that is named, else the first line."""
    text = str(error)
    for pattern in (_OURS, _ANY):
        found = pattern.findall(text)
        if found:
            return str(found[0][1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CLASS.sub("", first)
