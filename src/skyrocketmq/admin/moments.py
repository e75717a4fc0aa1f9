"""Times on the wire, milliseconds since 1970, as moments of a calendar and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["moment_of", "ms_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_MS_MAX: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS


def moment_of(ms: int) -> datetime | None:
    """The moment in UTC; None for 0 and below, "never" to Apache's brokers, and for what no calendar has."""
    return _EPOCH + ms * _MS if 0 < ms <= _MS_MAX else None


def ms_of(moment: datetime) -> int:
    """The milliseconds of a moment; one without a time zone is meant in this machine's."""
    return (moment.astimezone(UTC) - _EPOCH) // _MS
