"""One declaration a request: its code, what it carries, what its answer carries, who may send it, and who answers it.

    class OffsetHandlers:
        @answers(RequestCode.GET_MAX_OFFSET, needs=uses("topic"))
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
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

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
H_co = TypeVar("H_co", bound=Header, covariant=True)
B = TypeVar("B", bound=msgspec.Struct)
R = TypeVar("R", bound="Request[Any]")
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


def answers(
    code: IntEnum, *, needs: object, body: Body = "", answer: Carried | None = None
) -> Callable[[Callable[[S, R], A]], Callable[[S, R], A]]:
    """Declare that the method answers requests of this code.

    The type of its parameter says what the request carries, and what it returns says what the answer does. `body` and
    `answer` are for what these types leave open: what bytes are, and what is in a frame.
    """

    def declare(method: Callable[[S, R], A]) -> Callable[[S, R], A]:
        hints = get_type_hints(method)
        returned = hints.pop("return")
        (request,) = hints.values()
        (carried,) = get_args(request)
        header, json = (NoFields, carried) if get_origin(request) is BodyRequest else (carried, body)
        return _declare(method, (returned, answer), code=code, needs=needs, header=header, body=json)

    return declare


def answers_frames(
    code: IntEnum, *, needs: object, header: type[Header], body: str = "", answer: Carried | None = None
) -> Callable[[M], M]:
    """The same for a method that reads its frames itself: a `net.dispatch.Handler`, whose None means no answer.

    Several may stand above one method.
    """
    fields = {"code": code, "needs": needs, "header": header, "body": body, "takes_frames": True}
    return lambda method: _declare(method, answer, **fields)


def _declare(method: M, answer: object, **fields: Any) -> M:
    header: type[Header] = NoFields
    body: Body = ""
    for part in _parts(answer):
        if isinstance(part, str):
            body = part
        elif isinstance(part, type) and issubclass(part, Header):
            header = part
        elif isinstance(part, type) and issubclass(part, msgspec.Struct) and part is not Frame:
            body = part
    sentence = re.split(r"[.?](?:\s|$)", " ".join((method.__doc__ or "").split()), maxsplit=1)[0]
    meaning = sentence[:1].lower() + sentence[1:]
    declared = Declaration(meaning=meaning, answer=header, answer_body=body, **fields)
    method.declarations = [declared, *getattr(method, "declarations", ())]  # type: ignore[attr-defined]
    return method


def _parts(hint: object) -> Iterator[object]:
    """The parts of a pair, of a type of pairs, and of a choice of types."""
    parts = hint if isinstance(hint, tuple) else get_args(hint)
    if not parts:
        yield hint
    for part in parts:
        yield from _parts(part)


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
        return answer if hasattr(answer, "__await__") else _reply(declared, frame, answer)

    async def handle_later(frame: Frame, connection: Connection) -> Frame:
        answer = await method(BodyRequest(declared, decode_header(declared.header, frame.ext), frame, connection))
        return _reply(declared, frame, answer)

    return handle_later if iscoroutinefunction(method) else handle


def _reply(declared: Declaration, frame: Frame, answer: Any) -> Frame:
    if answer is None:
        return frame.reply()
    kind = type(answer)
    if kind is Frame:
        return cast("Frame", answer)
    header, body = answer if kind is tuple else (answer, b"") if kind is declared.answer else (None, answer)
    assert header is None or type(header) is declared.answer, f"the answer to {declared.code!r} is declared otherwise"
    if type(body) is not bytes:
        assert type(body) is declared.answer_body, f"the answer to {declared.code!r} is declared otherwise"
        body = encode_body(body)
    return frame.reply(ext=None if header is None else encode_header(header), body=body)
