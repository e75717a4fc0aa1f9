"""Release numbers: every frame carries its sender's version, a position in the family's list of releases.

Each release takes two positions, its snapshot and itself. The list is regular apart from its beginning (the alpha and
beta releases of 3.0.0) and the minor versions that started at patch 1, so it is computed here rather than copied.
"""

from __future__ import annotations

__all__ = [
    "FULL_REGISTRATION_VERSION",
    "RELAYED_CALLS_VERSION",
    "RESET_OFFSET_VERSION",
    "RETRY_LIMIT_VERSION",
    "SQL_FILTER_VERSION",
    "STANDARD_JSON_VERSION",
    "VERSION_4_9_7",
    "version_name",
    "version_number",
]


def _release_names() -> tuple[str, ...]:
    betas = [f"V3_0_0_BETA{number}" for number in range(1, 6)]
    for number in range(6, 10):
        betas += [f"V3_0_0_BETA{number}_SNAPSHOT", f"V3_0_0_BETA{number}"]
    names = ["V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", *betas, "V3_0_0_FINAL"]
    first_and_last_patch = {(3, 0): (1, 15), (3, 1): (0, 9), (3, 2): (0, 9)}
    first_and_last_patch |= {(3, minor): (1, 9) for minor in range(3, 10)}
    first_and_last_patch |= {(major, minor): (0, 9) for major in (4, 5) for minor in range(10)}
    for (major, minor), (first, last) in first_and_last_patch.items():
        for patch in range(first, last + 1):
            names += [f"V{major}_{minor}_{patch}_SNAPSHOT", f"V{major}_{minor}_{patch}"]
    return (*names, "HIGHER_VERSION")


_NAMES = _release_names()
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}

VERSION_4_9_7 = 407  # what we announce
assert _NAMES[VERSION_4_9_7] == "V4_9_7"

# From which version on a peer knows, or is believed to know, something.
RESET_OFFSET_VERSION = 28  # 3.0.7-SNAPSHOT: clients that can be told to reset their offsets (222, 223)
FULL_REGISTRATION_VERSION = 37  # 3.0.11: brokers that register with filter servers, optionally compressed
RELAYED_CALLS_VERSION = 62  # 3.1.8-SNAPSHOT: clients that answer calls relayed by a broker (307, 309)
RETRY_LIMIT_VERSION = 121  # 3.4.9: consumers that state maxReconsumeTimes themselves
SQL_FILTER_VERSION = 232  # 4.1.0-SNAPSHOT: brokers that filter by SQL92 expressions
STANDARD_JSON_VERSION = 401  # 4.9.4: clients that are given routes as standard JSON


def version_name(number: int) -> str:
    """The family's name of a version, such as `V4_9_7`; above the list its last entry, below it the first."""
    return _NAMES[max(0, min(number, len(_NAMES) - 1))]


def version_number(name: str) -> int | None:
    """The number of a version name such as `V4_9_7`, or None where there is no such release."""
    return _NUMBERS.get(name)
