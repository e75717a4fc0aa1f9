"""How long an address that failed is left alone. Pure: time and chance come in as numbers."""

from __future__ import annotations

from skyrocketmq.net.options import ClientOptions

__all__ = ["backoff_s"]

_EXPONENT_MAX = 64  # keeps a factor to the power of a million failures a number


def backoff_s(failure_count: int, *, chance: float, options: ClientOptions) -> float:
    """Seconds to wait after `failure_count` failures in a row; `chance` is a random number in [0, 1).

    The wait grows by `backoff_factor` up to `backoff_max_s`; `backoff_jitter` of it, at most, is taken off by chance.
    """
    if failure_count <= 0:
        return 0.0
    exponent = min(failure_count - 1, _EXPONENT_MAX)
    whole = min(options.backoff_first_s * options.backoff_factor**exponent, options.backoff_max_s)
    return whole * (1.0 - options.backoff_jitter * chance)
