"""Addresses that need not show who they are: the patterns of white lists.

| pattern | matches |
|---|---|
| (nothing) | nobody |
| `*` | everybody |
| `10.1.2.3`, `2001:db8::1` | one address |
| `10.1.2.{3,4}` | one of these in the last place |
| `10.1.2-5.*` | any number, or a range of them, in any place but the first |
| `2001:db8:*`, `2001:db8::5-9` | all that begins so; a range in the last place |
| `10.1.2.3,10.1.2.4` | one of a list |

Rule 1: all places count. Apache's broker tests nothing after the first range: its `10.1.*.7` is `10.1.*.*`.
Rule 2: an address is compared as bytes, an IPv4 one that came over IPv6 as IPv4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeAlias

from skyrocketmq.errors import ConfigError

__all__ = ["AddressMatcher", "match_any", "parse_addresses"]

AddressMatcher: TypeAlias = Callable[[bytes], bool]  # of a packed address of 4 or 16 bytes

_EVERYBODY: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_LIST: Final = re.compile(r",(?![^{]*\})")  # commas outside of braces
_Ranges: TypeAlias = list[tuple[int, int]]


def parse_addresses(text: str | None) -> AddressMatcher:
    """What a pattern matches. Raises `ConfigError` for one that means nothing."""
    pattern = (text or "").strip()
    if not pattern:
        return _nobody
    if pattern in _EVERYBODY:
        return _everybody
    return match_any([_parse_one(each.strip()) for each in _LIST.split(pattern)])


def match_any(matchers: Iterable[AddressMatcher]) -> AddressMatcher:
    """Several patterns as one."""
    several = tuple(matchers)
    return several[0] if len(several) == 1 else lambda packed: any(matches(packed) for matches in several)


def _nobody(packed: bytes) -> bool:
    return False


def _everybody(packed: bytes) -> bool:
    return True


def _parse_one(pattern: str) -> AddressMatcher:
    head, brace, rest = pattern.partition("{")
    if not brace:
        return _in_ranges(_ranges(pattern))
    if not rest.endswith("}"):
        raise _illegal(pattern)
    return match_any([_in_ranges(_ranges(head + last.strip())) for last in rest[:-1].split(",")])


def _in_ranges(ranges: _Ranges) -> AddressMatcher:
    part_bytes = 1 if len(ranges) == 4 else 2
    packed_bytes = len(ranges) * part_bytes

    def matches(packed: bytes) -> bool:
        return len(packed) == packed_bytes and all(
            low <= int.from_bytes(packed[at : at + part_bytes], "big") <= high
            for at, (low, high) in zip(range(0, packed_bytes, part_bytes), ranges, strict=True)
        )

    return matches


def _ranges(pattern: str) -> _Ranges:
    """The smallest and the largest number in each place: 4 places of IPv4 or 8 of IPv6."""
    try:
        address = ip_address(pattern)
    except ValueError:
        return _ranges_v6(pattern) if ":" in pattern else _ranges_v4(pattern)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    packed, part_bytes = address.packed, 1 if len(address.packed) == 4 else 2
    numbers = [int.from_bytes(packed[at : at + part_bytes], "big") for at in range(0, len(packed), part_bytes)]
    return [(number, number) for number in numbers]


def _ranges_v4(pattern: str) -> _Ranges:
    places = pattern.split(".")
    if len(places) != 4 or not places[0].strip().isdecimal():
        raise _illegal(pattern)
    return [_range(place.strip(), base=10, largest=255, pattern=pattern) for place in places]


def _ranges_v6(pattern: str) -> _Ranges:
    before, gap, after = pattern.partition("::")
    first = before.split(":") if before else []
    last = after.split(":") if after else []
    if not gap and first[-1] == "*":
        last, first = [], first[:-1]
        missing = ["*"] * (8 - len(first))
    else:
        missing = ["0"] * (8 - len(first) - len(last)) if gap else []
    places = [*first, *missing, *last]
    if len(places) != 8 or (not gap and not missing and "-" not in pattern):
        raise _illegal(pattern)
    return [_range(place.strip(), base=16, largest=0xFFFF, pattern=pattern) for place in places]


def _range(place: str, *, base: int, largest: int, pattern: str) -> tuple[int, int]:
    if place == "*":
        return 0, largest
    low, dash, high = place.partition("-")
    digits = re.compile(r"[0-9a-fA-F]{1,4}" if base == 16 else r"[0-9]{1,3}")
    if digits.fullmatch(low) is None or (dash and digits.fullmatch(high) is None):
        raise _illegal(pattern)
    bounds = int(low, base), int(high if dash else low, base)
    if bounds[0] > bounds[1] or bounds[1] > largest:
        raise _illegal(pattern)
    return bounds


def _illegal(pattern: str) -> ConfigError:
    return ConfigError(
        f"{pattern!r} is no address and no pattern of addresses: write 10.1.2.3, 10.1.2.*, 10.1.2.5-9, 10.1.2.{{3,4}}, "
        "2001:db8::1 or 2001:db8:*"
    )
