from __future__ import annotations

import pytest

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.net import Address, pack_address, parse_address
from skyrocketmq.net.addresses import UNKNOWN_PEER, peer_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9876", Address("localhost", 9876)),
        ("10.0.0.1:10911", Address("10.0.0.1", 10911)),
        ("::1:9876", Address("::1", 9876)),
        ("[::1]:9876", Address("::1", 9876)),
        ("0:0:0:0:0:0:0:1:9876", Address("0:0:0:0:0:0:0:1", 9876)),
        (" broker-a:1 ", Address("broker-a", 1)),
    ],
)
def test_an_address_is_split_at_its_last_colon(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9876", "host:port", "host:70000", "host:-1", "h:²"])
def test_what_is_no_address_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(IllegalArgument, match="host:port"):
        parse_address(text)


def test_an_address_prints_as_the_family_writes_it() -> None:
    assert str(Address("10.0.0.1", 9876)) == "10.0.0.1:9876"
    assert str(Address("::1", 9876)) == "::1:9876"
    assert parse_address(str(Address("fe80::1", 5))) == Address("fe80::1", 5)


def test_a_peer_that_is_ipv4_on_a_dual_socket_is_ipv4() -> None:
    assert peer_address(("::ffff:10.1.2.3", 80, 0, 0)) == Address("10.1.2.3", 80)
    assert peer_address(("10.1.2.3", 80)) == Address("10.1.2.3", 80)
    assert peer_address(("::1", 80, 0, 0)) == Address("::1", 80)
    assert peer_address(None) == UNKNOWN_PEER


def test_records_keep_an_address_as_ip_and_four_bytes_of_port() -> None:
    assert pack_address(Address("127.0.0.1", 10911)) == bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
    assert pack_address(Address("::1", 1)) == bytes(15) + b"\x01" + b"\0\0\0\x01"
    assert pack_address(Address("fe80::1%eth0", 1))[:2] == b"\xfe\x80"
