"""What a slave says before its first report: fed whole and in crumbs, signed rightly and wrongly, and as nonsense."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.replication import encode_report
from skyrocketmq.wire.replication_greeting import (
    HELLO,
    GreetingDecoder,
    Introduction,
    decode_challenge,
    encode_challenge,
    encode_introduction,
    is_signed_with,
    sign_introduction,
)

CHALLENGE = bytes(range(32))
SIGNED = sign_introduction(CHALLENGE, access_key="the-slaves", secret_key="a secret", broker_name="broker-a")


@dataclass
class Heard:
    said: list[Introduction | None]
    reports: bytes


def hear(*parts: bytes) -> Heard:
    decoder, heard = GreetingDecoder(), Heard([], b"")
    for part in parts:
        said, reports = decoder.feed(part)
        heard.said += said
        heard.reports += reports
    return heard


@pytest.mark.parametrize("cut", range(1, 40))
def test_an_offer_an_introduction_and_a_report_are_read_however_they_are_cut(cut: int) -> None:
    stream = HELLO + encode_introduction(SIGNED) + encode_report(77)
    decoder, said, reports = GreetingDecoder(), list[Introduction | None](), b""
    for at in range(0, len(stream), cut):
        part = stream[at : at + cut]
        if reports:
            reports += part
            continue
        new, reports = decoder.feed(part)
        said += new
    assert said == [None, SIGNED]
    assert reports == encode_report(77)


def test_reports_without_a_greeting_pass() -> None:
    assert hear(encode_report(0) + encode_report(9)) == Heard([], encode_report(0) + encode_report(9))


@pytest.mark.parametrize("length", [-1, 0, 4097, 2**31 - 1])
def test_an_introduction_has_a_size_that_makes_sense(length: int) -> None:
    with pytest.raises(ProtocolError, match="announces"):
        hear(encode_report(-2) + length.to_bytes(4, "big", signed=True))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_greeting_reports_or_an_error(data: bytes) -> None:
    for stream in (data, HELLO + data, encode_report(-2) + len(data).to_bytes(4, "big") + data):
        try:
            hear(stream)
        except ProtocolError:
            pass


def test_a_signature_counts_for_its_challenge_its_names_and_its_secret_only() -> None:
    assert is_signed_with("a secret", SIGNED, CHALLENGE)
    assert not is_signed_with("another secret", SIGNED, CHALLENGE)
    assert not is_signed_with("a secret", SIGNED, CHALLENGE[::-1])
    for changed in (
        Introduction("the-slave", "sbroker-a", SIGNED.signature),
        Introduction("the-slaves", "broker-b", SIGNED.signature),
        Introduction("the-slaves", "broker-a", ""),
        Introduction("the-slaves", "broker-a", "é"),
    ):
        assert not is_signed_with("a secret", changed, CHALLENGE)


def test_a_challenge_is_read_from_crumbs_and_nothing_else_is_one() -> None:
    stream = encode_challenge(CHALLENGE)
    assert [decode_challenge(stream[:size]) for size in range(len(stream))] == [None] * len(stream)
    assert decode_challenge(stream) == CHALLENGE
    for wrong in (stream + b"x", encode_report(0), b"\x16\x03\x01"):
        with pytest.raises(ProtocolError):
            decode_challenge(wrong)
