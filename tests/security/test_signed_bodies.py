"""What a signature costs the server that checks it, whoever made it."""

from __future__ import annotations

import pytest

from skyrocketmq.wire import signing
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import signed
from tests.broker.requests import send_frame
from tests.broker.test_access import check_refused, guarded_house, make_topic

BODY = bytes(300_000)
MIB = 1 << 20


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("empty", ["", None])
async def test_a_large_body_is_hashed_once_or_twice(
    is_binary: bool, is_signed: bool, empty: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []
    content = signing.signed_content

    def counted(fields: object, body: bytes) -> bytes:
        hashed.append(len(body))
        return content(fields, body)  # type: ignore[arg-type]  # as it came

    async with guarded_house() as (_, peer):
        await make_topic(peer)
        for _ in range(3):  # its header is known by now
            await peer.ok(signed(send_frame(is_binary=is_binary), "the-writer"))
        frame = signed(send_frame(is_binary=is_binary, body=BODY), "the-writer")
        if not is_signed:
            assert frame.ext is not None
            frame.ext |= {"Signature": "A" * 28, signing.UNIQUE_KEY_QUERY: "true", "n": empty}
        monkeypatch.setattr(signing, "signed_content", counted)
        answer = await peer.ask(frame)
        assert (answer.code == 0) is is_signed
        assert len(hashed) <= 2


async def test_a_body_that_no_client_sends_is_refused_before_it_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        _, remark = await peer.refused(signed(send_frame(body=bytes(5 * MIB)), "the-writer"))
        assert "AclException" not in remark, "1 MiB above the largest message: another part of the broker says no"
        large = signed(send_frame(body=bytes(5 * MIB + 1)), "the-writer")
        with monkeypatch.context() as patched:
            patched.setattr(signing, "signed_content", lambda *_: pytest.fail("it was hashed"))
            await check_refused(peer, large, "5242881 bytes", "maxMessageSize")
        setting = Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=b"maxMessageSize=6291456\n")
        await peer.ok(signed(setting, "the-admin"))
        _, remark = await peer.refused(large)
        assert "AclException" not in remark, "the limit follows that of messages"


async def test_a_small_limit_of_messages_is_none_of_other_requests() -> None:
    async with guarded_house(store={"message_bytes_max": 1000}) as (_, peer):
        setting = Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=b"traceOn=false\n" + b"#" * (4 * MIB))
        _, remark = await peer.refused(signed(setting, "the-admin"))
        assert "AclException" not in remark


@pytest.mark.parametrize("size", [0, signing.COPIED_BYTES_MAX, signing.COPIED_BYTES_MAX + 1, 300_000])
def test_a_signature_is_the_same_whether_its_body_is_copied_or_not(size: int) -> None:
    fields, body = {"b": "2", "a": None}, bytes(range(256)) * (size // 256) + bytes(size % 256)
    made = signing.sign_request(fields, body, access_key="key", secret_key="secret")
    content = b"keynull2" + body
    assert made["Signature"] == signing.signature(content, "secret")
    assert signing.is_signed_by(made, body, secret_key="secret")
    assert not signing.is_signed_by(made, body + b"x", secret_key="secret")


def test_a_body_beyond_a_limit_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    content = signing.signed_content

    def counted(fields: object, body: bytes) -> bytes:
        hashed.append(len(body))
        return content(fields, body)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(signing, "signed_content", counted)
    fields = {"a": None, "Signature": "x"}
    for size, times in ((signing.SECOND_FORM_BYTES_MAX, 2), (signing.SECOND_FORM_BYTES_MAX + 1, 1)):
        hashed.clear()
        assert not signing.is_signed_by(fields, bytes(size), secret_key="secret")
        assert len(hashed) == times
