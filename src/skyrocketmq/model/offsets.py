"""Two numbers that must not be confused.

Both are called "offset" in Apache RocketMQ: one counts bytes of the commit log, the other messages of a queue.
"""

from __future__ import annotations

from typing import NewType

LogOffset = NewType("LogOffset", int)  # byte position in the commit log of one broker
QueueOffset = NewType("QueueOffset", int)  # message number in one consume queue
