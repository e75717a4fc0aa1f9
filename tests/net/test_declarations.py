"""One declaration a request: a code, a struct and a method are all that a server needs to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import IntEnum

import msgspec
import pytest

from skyrocketmq.errors import BrokerError
from skyrocketmq.net import (
    BodyRequest,
    Client,
    Connection,
    Dispatcher,
    Request,
    Server,
    answers,
    answers_frames,
    declared_by,
    register_answers,
)
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.headers_codec import Header, NoFields
from tests.net.support import LOOPBACK, address_of


class Code(IntEnum):
    SQUARE = 30_001
    NAME_LENGTHS = 30_002
    FORGET = 30_003
    SLOWLY = 30_004
    AS_IT_IS = 30_005
    RAW = 30_006
    RAW_TOO = 30_007
    WRONG = 30_008


class NumberHeader(Header):
    a_number: int | None = None


class SquareAnswer(Header):
    square: int = 0
    is_even: bool = False


class Names(msgspec.Struct):
    names: tuple[str, ...] = ()


class Lengths(msgspec.Struct):
    lengths: tuple[int, ...] = ()


class Handlers:
    """A server of arithmetic."""

    @answers(Code.SQUARE, needs="a head for figures")
    def square(self, request: Request[NumberHeader]) -> SquareAnswer:
        """The square of a number. Of none, there is none."""
        number = request.required(request.header.a_number, "aNumber")
        return SquareAnswer(square=number**2, is_even=number % 2 == 0)

    @answers(Code.NAME_LENGTHS, needs="nothing")
    def name_lengths(self, request: BodyRequest[Names]) -> Lengths | None:
        """How long names are"""
        if request.frame.version == 1:
            return None  # and the body is never read
        assert request.body is request.body, "it is read once"
        return Lengths(lengths=tuple(map(len, request.body.names)))

    @answers(Code.FORGET, needs="nothing")
    async def forget(self, request: Request[NoFields]) -> None:
        """Is this a question? It is one."""

    @answers(Code.SLOWLY, answer="bytes", needs="patience")
    async def slowly(self, request: Request[NumberHeader]) -> tuple[SquareAnswer, bytes]:
        """Both."""
        await asyncio.sleep(0)
        return SquareAnswer(), b"of both kinds"

    @answers(Code.AS_IT_IS, answer="bytes", needs="nothing")
    def as_it_is(self, request: Request[NoFields]) -> Frame | Awaitable[Frame] | bytes:
        """A frame, now or later, or only its body."""

        async def later() -> Frame:
            return request.frame.reply(8, remark="later")

        if request.frame.version == 1:
            return b"body"
        return later() if request.frame.version == 2 else request.frame.reply(7, remark="now")

    @answers_frames(Code.RAW, header=NumberHeader, needs="nothing")
    @answers_frames(Code.RAW_TOO, header=NoFields, body="bytes", needs="something")
    def raw(self, frame: Frame, connection: Connection) -> Frame | None:
        """Silence, and silence alone."""
        return frame.reply(9) if frame.body else None

    @answers(Code.WRONG, answer=SquareAnswer, needs="nothing")
    def wrong(self, request: Request[NoFields]) -> NumberHeader:
        """Not what it says."""
        return NumberHeader(a_number=1)


async def ask(code: int, ext: dict[str, str | None] | None = None, **fields: object) -> Frame:
    dispatcher = Dispatcher()
    register_answers(dispatcher, Handlers())
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        return await client.request(address_of(server), Frame(code, ext=ext, **fields), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", Encoding)
async def test_a_header_comes_decoded_and_a_header_is_the_answer(encoding: Encoding) -> None:
    answer = await ask(Code.SQUARE, {"aNumber": "12", "unknown": "x"}, encoding=encoding)
    assert (answer.code, answer.ext, answer.body, answer.encoding) == (
        0,
        {"square": "144", "isEven": "true"},
        b"",
        encoding,
    )


async def test_a_field_that_is_missing_or_no_value_is_named() -> None:
    for ext in ({}, {"aNumber": "twelve"}):
        answer = await ask(Code.SQUARE, ext)  # type: ignore[arg-type]
        said = "the field aNumber of request 30001 is missing, or is no value of its type: send it"
        assert (answer.code, answer.remark) == (1, said)


async def test_a_body_comes_decoded_and_a_struct_is_the_answers_body() -> None:
    answer = await ask(Code.NAME_LENGTHS, body=b'{"names":["one","three"],"more":1}')
    assert (answer.code, answer.body) == (0, b'{"lengths":[3,5]}')


async def test_a_body_is_read_when_it_is_asked_for_and_refused_with_the_reason() -> None:
    answer = await ask(Code.NAME_LENGTHS, body=b"[")
    assert answer.code == 1
    assert (answer.remark or "").startswith("the body of request 30002 cannot be read: ")
    assert (await ask(Code.NAME_LENGTHS, body=b"[", version=1)).code == 0


async def test_nothing_to_say_is_a_success() -> None:
    answer = await ask(Code.FORGET)
    assert (answer.code, answer.ext, answer.body, answer.remark) == (0, None, b"", None)


async def test_a_coroutine_may_answer_with_header_and_body() -> None:
    answer = await ask(Code.SLOWLY)
    assert (answer.code, answer.ext, answer.body) == (0, {"square": "0", "isEven": "false"}, b"of both kinds")


async def test_a_frame_is_an_answer_as_it_is_now_or_later() -> None:
    found = [await ask(Code.AS_IT_IS, version=version) for version in (0, 1, 2)]
    assert [(answer.code, answer.remark, answer.body) for answer in found] == [
        (7, "now", b""),
        (0, None, b"body"),
        (8, "later", b""),
    ]


async def test_a_method_that_reads_frames_itself_may_keep_silent() -> None:
    assert (await ask(Code.RAW, body=b"x")).code == 9
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask(Code.RAW_TOO)


async def test_an_answer_that_is_not_what_was_declared_is_our_mistake() -> None:
    answer = await ask(Code.WRONG)
    assert answer.code == 1
    assert "declared otherwise" in (answer.remark or "")


def test_what_is_declared_can_be_looked_up() -> None:
    declared = declared_by(Handlers)
    assert list(declared) == list(Code)
    square = declared[Code.SQUARE]
    assert (square.meaning, square.needs) == ("the square of a number", "a head for figures")
    assert (square.header, square.body, square.answer, square.answer_body) == (NumberHeader, "", SquareAnswer, "")
    assert (declared[Code.NAME_LENGTHS].body, declared[Code.NAME_LENGTHS].answer_body) == (Names, Lengths)
    assert (declared[Code.SLOWLY].answer, declared[Code.SLOWLY].answer_body) == (SquareAnswer, "bytes")
    assert declared[Code.NAME_LENGTHS].meaning == "how long names are"
    assert declared[Code.FORGET].meaning == "is this a question"
    assert (declared[Code.RAW].needs, declared[Code.RAW_TOO].needs) == ("nothing", "something")


def test_a_code_has_one_declaration() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        declared_by(Handlers, Handlers)


def test_a_refusal_is_an_exception_with_a_code() -> None:
    request = Request(declared_by(Handlers)[Code.SQUARE], NumberHeader(), Frame(Code.SQUARE), None)  # type: ignore[arg-type]
    with pytest.raises(BrokerError) as caught:
        request.required("", "aNumber")
    assert caught.value.code == 1
