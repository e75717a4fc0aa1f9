"""Addresses between text and their packed form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.hosts import host_text, pack_address, pack_host, unpack_host


@pytest.mark.parametrize(
    ("ip", "port", "packed", "text"),
    [
        ("10.0.0.2", 10911, "0a000002 00002a9f", "10.0.0.2:10911"),
        ("2001:db8::1", 10911, "20010db8000000000000000000000001 00002a9f", "[2001:db8::1]:10911"),
        ("::ffff:10.0.0.2", 1, "0a000002 00000001", "10.0.0.2:1"),
        ("fe80::1%eth0", 1, "fe800000000000000000000000000001 00000001", "[fe80::1]:1"),
    ],
)
def test_an_address_is_packed_and_shown(ip: str, port: int, packed: str, text: str) -> None:
    assert pack_host(ip, port) == bytes.fromhex(packed)
    assert pack_address(f"{ip}:{port}") == bytes.fromhex(packed)
    assert pack_address(f"[{ip}]:{port}") == bytes.fromhex(packed)
    assert host_text(bytes.fromhex(packed)) == text
    assert pack_address(text) == bytes.fromhex(packed)


@pytest.mark.parametrize(
    "address", ["", "10.0.0.1", "localhost:1", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:65536", "1:-1"]
)
def test_what_is_no_numeric_address_is_refused(address: str) -> None:
    with pytest.raises(IllegalArgument):
        pack_address(address)


@given(st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20))
def test_any_stored_host_can_be_shown(packed: bytes) -> None:
    ip, port = unpack_host(packed)
    assert host_text(packed).endswith(f":{port}")
    assert ip in host_text(packed)
