"""Patterns of white lists."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from skyrocketmq.access.addresses import match_any, parse_addresses
from skyrocketmq.errors import ConfigError


def matches(pattern: str | None, address: str) -> bool:
    return parse_addresses(pattern)(ip_address(address).packed)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4"], []),
        ("*:*:*:*:*:*:*:*", ["2001:db8::1"], []),
        ("", [], ["1.2.3.4", "::1"]),
        ("  ", [], ["1.2.3.4"]),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.4", "10.1.2.33", "::1"]),
        ("10.1.2.*", ["10.1.2.0", "10.1.2.255"], ["10.1.3.0", "10.1.20.0"]),
        ("10.1.2.5-9", ["10.1.2.5", "10.1.2.9"], ["10.1.2.4", "10.1.2.10"]),
        ("10.1.2-5.*", ["10.1.2.7", "10.1.5.255"], ["10.1.1.7", "10.1.6.7"]),
        ("10.*.*.*", ["10.0.0.0", "10.255.1.2"], ["11.0.0.0"]),
        ("10.1.*.7", ["10.1.0.7", "10.1.255.7"], ["10.1.0.8"]),
        ("10.1.2.{3,5}", ["10.1.2.3", "10.1.2.5"], ["10.1.2.4"]),
        ("10.1.2.{ 3 , 5 }", ["10.1.2.5"], ["10.1.2.4"]),
        ("10.1.2.3,10.1.2.4, ::1", ["10.1.2.3", "10.1.2.4", "::1"], ["10.1.2.5"]),
        ("10.1.2.{3,4},10.2.*.*", ["10.1.2.4", "10.2.9.9"], ["10.1.2.5"]),
        ("2001:db8::1", ["2001:db8::1", "2001:DB8:0:0:0:0:0:1"], ["2001:db8::2", "1.2.3.4"]),
        ("2001:db8:*", ["2001:db8::1", "2001:db8:ffff::"], ["2001:db9::1"]),
        ("2001:db8::5-9", ["2001:db8::5", "2001:db8::9"], ["2001:db8::4", "2001:db8::a", "2001:db8:0:0:0:0:1:5"]),
        ("2001:db8::{1,2}", ["2001:db8::1", "2001:db8::2"], ["2001:db8::3"]),
        ("1:2:3:4:5:6:7:8-f", ["1:2:3:4:5:6:7:c"], ["1:2:3:4:5:6:7:10"]),
        ("::ffff:10.0.0.1", ["10.0.0.1"], ["10.0.0.2"]),
    ],
)
def test_a_pattern_matches_its_addresses_and_no_others(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert [matches(pattern, address) for address in inside] == [True] * len(inside)
    assert [matches(pattern, address) for address in outside] == [False] * len(outside)


def test_no_pattern_matches_nobody() -> None:
    assert not matches(None, "10.0.0.1")
    assert not match_any([])(b"\x0a\0\0\1")


@pytest.mark.parametrize(
    "pattern",
    [
        *("10.1.2", "10.1.2.3.4", "10.1.2.256", "10.1.2.9-5", "10.1.2.-5", "10.1.2.5-", "*.1.2.3", "10.1.2.x"),
        *("10.1.2.{3,4", "10.1.2.{}", "10.1.2.{3,x}", "host", "1:2:3", "2001:db8::g", "1:2:3:4:5:6:7:8:9", "10.1..3"),
        *("10.1.2.3,", "12.34.56.78/24", "-", ":", "2001::1::2"),
    ],
)
def test_what_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="no pattern"):
        parse_addresses(pattern)
