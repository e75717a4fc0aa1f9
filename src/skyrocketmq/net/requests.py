"""One declaration a request: its code, what it carries, what its answer carries, who may send it, and who answers it.

    class OffsetHandlers:
        @answers(RequestCode.GET_MAX_OFFSET, header=QueueHeader, answer=OffsetAnswer, needs=uses("topic"))
        def max_offset(self, request: Request[QueueHeader]) -> OffsetAnswer:
            \"""The offset that the next message of a queue will have.\"""

All else is derived: a dispatcher's table (`register_answers`), the access rules, docs/formats/requests.md, where the
docstring's first sentence says what the request means, and the registries that tests use (`declared_by`).

A method gets the decoded header. The JSON body of a `BodyRequest` is decoded when it is first asked for, so that a
handler can refuse by size, or by role, before. It returns what its answer carries: nothing, a header, a body, both as a
pair, or a whole `Frame` where there is more to say. It may be a coroutine; or return something to await, which then
gives a `Frame`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

import msgspec

from skyrocketmq.errors import ProtocolError, broker_error
from skyrocketmq.net.connection import Connection
from skyrocketmq.net.dispatch import Dispatcher, Handler
from skyrocketmq.wire.bodies import decode_request, encode_body
from skyrocketmq.wire.codes import ResponseCode, request_name
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Header, NoFields, decode_header, encode_header

__all__ = ["BodyRequest", "Declaration", "Request", "answers", "answers_frames", "declared_by", "register_answers"]

Body: TypeAlias = type[msgspec.Struct] | str  # a struct travels as JSON; a text names another form, or none
Carried: TypeAlias = Body | tuple[type[Header], Body]  # by an answer; a header is a struct as well
Answer: TypeAlias = msgspec.Struct | bytes | tuple[Header, msgspec.Struct | bytes] | None

T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A", bound=Answer | Awaitable[Answer])
H = TypeVar("H", bound=Header)
H_co = TypeVar("H_co", bound=Header, covariant=True)
B = TypeVar("B", bound=msgspec.Struct)
M = TypeVar("M", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What is declared of one request. `needs` is for the server's access control; its text is for people."""

    code: IntEnum
    meaning: str
    needs: object
    header: type[Header] = NoFields
    body: Body = ""
    answer: type[Header] = NoFields
    answer_body: Body = ""
    takes_frames: bool = False


class Request(msgspec.Struct, Generic[H_co], dict=True):
    """A request on its way through its handler."""

    declared: Declaration
    header: H_co
    frame: Frame
    connection: Connection

    def required(self, value: T | None, field: str) -> T:
        """A field that has to be there, and has to be readable: one that is neither is None by now."""
        if value is None or value == "":
            remark = (
                f"the field {field} of request {request_name(self.frame.code)} is missing, or is no value of its type"
            )
            raise broker_error(ResponseCode.SYSTEM_ERROR, f"{remark}: send it")
        return value


class BodyRequest(Request[Header], Generic[B]):
    """What a handler is given whose request has a JSON body."""

    @cached_property
    def body(self) -> B:
        try:
            return decode_request(cast("type[B]", self.declared.body), self.frame.body)
        except ProtocolError as error:
            remark = f"the body of request {request_name(self.frame.code)} cannot be read: {error}"
            raise broker_error(ResponseCode.SYSTEM_ERROR, remark) from error


# ---------------------------------------------------------------------------------------------------------- declaring


@overload
def answers(
    code: IntEnum, *, needs: object, header: type[H], body: Body = ..., answer: Carried = ...
) -> Callable[[Callable[[S, Request[H]], A]], Callable[[S, Request[H]], A]]: ...
@overload
def answers(
    code: IntEnum, *, needs: object, body: type[B], answer: Carried = ...
) -> Callable[[Callable[[S, BodyRequest[B]], A]], Callable[[S, BodyRequest[B]], A]]: ...
@overload
def answers(
    code: IntEnum, *, needs: object, body: str = ..., answer: Carried = ...
) -> Callable[[Callable[[S, Request[NoFields]], A]], Callable[[S, Request[NoFields]], A]]: ...
def answers(code: IntEnum, *, needs: object, **more: Any) -> Callable[[M], M]:
    """Declare that the method answers requests of this code; several may stand above one method.

    `answer` is what the answer carries: a header, a body, or both.
    """
    return _declare(code=code, needs=needs, **more)


def answers_frames(
    code: IntEnum, *, needs: object, header: type[Header], body: str = "", answer: Carried = ""
) -> Callable[[M], M]:
    """The same for a method that reads its frames itself: a `net.dispatch.Handler`, whose None means no answer."""
    return _declare(code=code, needs=needs, header=header, body=body, answer=answer, takes_frames=True)


def _declare(*, answer: Carried = "", **fields: Any) -> Callable[[M], M]:
    if isinstance(answer, type) and issubclass(answer, Header):
        answer = answer, ""
    header, body = answer if isinstance(answer, tuple) else (NoFields, answer)

    def declare(method: M) -> M:
        meaning = _first_sentence(method.__doc__ or "")
        declared = Declaration(meaning=meaning, answer=header, answer_body=body, **fields)
        method.declarations = [declared, *getattr(method, "declarations", ())]  # type: ignore[attr-defined]
        return method

    return declare


def _first_sentence(text: str) -> str:
    sentence = re.split(r"[.?](?:\s|$)", " ".join(text.split()), maxsplit=1)[0]
    return sentence[:1].lower() + sentence[1:]


# ------------------------------------------------------------------------------------------------------------ deriving


def declared_by(*handlers: type) -> dict[int, Declaration]:
    """What classes of handlers declare, by code. No code has two declarations."""
    found: dict[int, Declaration] = {}
    for cls in handlers:
        for _, declared in _declarations(cls):
            assert declared.code not in found, f"{declared.code!r} is declared twice"
            found[declared.code] = declared
    return found


def register_answers(dispatcher: Dispatcher, *handlers: object) -> None:
    """Let a dispatcher give requests to the methods that declare them."""
    for service in handlers:
        for name, declared in _declarations(type(service)):
            method = getattr(service, name)
            dispatcher.register(declared.code, method if declared.takes_frames else _handler(declared, method))


def _declarations(cls: type) -> Iterator[tuple[str, Declaration]]:
    for name, member in vars(cls).items():
        for declared in getattr(member, "declarations", ()):
            yield name, declared


def _handler(declared: Declaration, method: Callable[[Any], Any]) -> Handler:
    def handle(frame: Frame, connection: Connection) -> Frame | Awaitable[Frame]:
        answer = method(BodyRequest(declared, decode_header(declared.header, frame.ext), frame, connection))
        return answer if isinstance(answer, Awaitable) else _reply(declared, frame, answer)

    async def handle_later(frame: Frame, connection: Connection) -> Frame:
        answer = await method(BodyRequest(declared, decode_header(declared.header, frame.ext), frame, connection))
        return _reply(declared, frame, answer)

    return handle_later if iscoroutinefunction(method) else handle


def _reply(declared: Declaration, frame: Frame, answer: Answer) -> Frame:
    if answer is None:
        return frame.reply()
    if isinstance(answer, Frame):
        return answer
    header, body = answer if isinstance(answer, tuple) else (None, answer)
    if isinstance(body, Header):
        header, body = body, b""
    assert header is None or type(header) is declared.answer, f"the answer to {declared.code!r} is declared otherwise"
    if not isinstance(body, bytes):
        assert type(body) is declared.answer_body, f"the answer to {declared.code!r} is declared otherwise"
        body = encode_body(body)
    return frame.reply(ext=None if header is None else encode_header(header), body=body)
