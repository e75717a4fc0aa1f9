"""Whether code is called by a handler of a consumer, in a task or in a thread.

A handler that closes its own consumer must not wait for the end of it: closing waits for the handlers. What a handler
starts (tasks, calls into the loop from its thread) inherits the answer from it, as context variables do.
"""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["HandlerScope"]


class HandlerScope:
    """The handlers of one consumer. Entered once by each worker, so that a message pays nothing for it."""

    __slots__ = ()

    def enter(self) -> None:
        """From now on, this task or thread works for the handlers."""
        _entered.set(self)

    @property
    def is_entered(self) -> bool:
        """Whether the caller is a handler, or was started by one."""
        return _entered.get() is self


_entered: ContextVar[HandlerScope | None] = ContextVar("skyrocketmq_handler_scope", default=None)
