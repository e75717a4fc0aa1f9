r"""Headers that are known but for three places: when the message was born, its unique id, and the request's number.

A hot module: most sends of a busy producer are recognised here, by two look-ups of bytes. A stencil is a header with
its three holes; what lies between them must be the same to the byte:

    JSON      { ... "g":" | born, 13 digits | ... UNIQ_KEY\u0001 | id, 32 characters | ... "opaque": | number | , ... }
    binary    group .. system flag | born | flag .. UNIQ_KEY\x01 | id | the rest;   the number stands in front of it all

Rule 1: a stencil is made from a header that was read in full and found to be a plain send. Letters and digits in the
holes cannot change how the rest is read, so what follows from the rest is known.
Rule 2: stencils are dropped when a topic or the configuration changes, like all that was derived from them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from skyrocketmq.broker.send_topics import SendQueue, SendShape
from skyrocketmq.wire.frames import RESPONSE_BIT

__all__ = ["PlainSend", "SendStencils"]

PlainSend = tuple[SendQueue, SendShape, bytes, int, int, int, int, int, int]
"""(queue, shape, unique id, request number, flag of the frame, system flag, born time, user flag, reconsume times)"""

_Known = tuple[SendQueue, SendShape, int, int, int, int]  # the same without what stands in the holes


class _Beginning:
    """What is before the first hole, and all that was seen to follow it.

    The one that was found last is tried first: comparing bytes where they lie is cheaper than cutting them out.
    """

    __slots__ = ("known", "last", "middle", "rest", "tail")

    def __init__(self) -> None:
        self.known: dict[tuple[bytes, bytes, bytes], _Known] = {}  # by what is between and behind the other holes
        self.middle = self.tail = self.rest = b""
        self.last: _Known | None = None

    def use(self, middle: bytes, tail: bytes, rest: bytes) -> _Known | None:
        """The send with these texts, tried first from now on; None if there is none."""
        found = self.known.get((middle, tail, rest))
        if found is not None:
            self.middle, self.tail, self.rest, self.last = middle, tail, rest, found
        return found


_Table = dict[bytes, _Beginning]

STENCIL_COUNT_MAX: Final = 10_000  # above, all are dropped and made again

_BORN_BYTES: Final = 13  # digits, until the year 2286
_ID_BYTES: Final = 32
_DIGITS_MAX: Final = 9  # of a request number: whether a longer one fits in an int is not looked at here
_JSON_START: Final = b'{"code":310,"extFields":{'
_JSON_BORN: Final = b'"g":"'
_JSON_ID: Final = rb"UNIQ_KEY\u0001"
_JSON_TO_ID: Final = len(rb'","h":"0","i":"UNIQ_KEY\u0001')  # from the born time to the id
_JSON_NUMBER: Final = b'"opaque":'
_BINARY_EXT_AT: Final = 21
_BINARY_BORN: Final = b"\0\1g\0\0\0\x0d"
_BINARY_ID: Final = b"UNIQ_KEY\x01"
_BINARY_TO_ID: Final = len(b"\0\1h\0\0\0\1" + b"0" + b"\0\1i\0\0\0\0" + _BINARY_ID)
_binary_head: Final = Struct(">5xiiii").unpack_from  # | code .. version | number | flag | remark length | ext length |


class SendStencils:
    """The stencils of one broker, for both encodings."""

    def __init__(self) -> None:
        self._json: _Table = {}
        self._binary: _Table = {}
        self._count = 0

    def clear(self) -> None:
        self._json.clear()
        self._binary.clear()
        self._count = 0

    # -- JSON

    def find_json(self, data: bytes, at: int, end: int) -> PlainSend | None:
        """The send that the header in these bytes is, if there is a stencil of it."""
        born_at = data.find(_JSON_BORN, at, end) + 5
        beginning = self._json.get(data[at:born_at])
        if beginning is None:
            return None
        born_end = born_at + _BORN_BYTES
        id_at = born_end + _JSON_TO_ID
        id_end = id_at + _ID_BYTES
        number_at = id_end + len(beginning.tail)
        rest_at = end - len(beginning.rest)
        found = beginning.last
        if not (
            data.startswith(beginning.middle, born_end)
            and data.startswith(beginning.tail, id_end)
            and data.startswith(beginning.rest, rest_at)
        ):
            number_at = data.find(_JSON_NUMBER, id_end, end) + 9
            rest_at = data.find(b",", number_at, end)
            found = beginning.use(data[born_end:id_at], data[id_end:number_at], data[rest_at:end])
        born, key, number = data[born_at:born_end], data[id_at:id_end], data[number_at:rest_at]
        if found is None or not (born.isdigit() and key.isalnum() and number.isdigit()) or len(number) > _DIGITS_MAX:
            return None
        queue, shape, frame_flag, sys_flag, flag, reconsumed = found
        return queue, shape, key, int(number), frame_flag, sys_flag, int(born), flag, reconsumed

    def learn_json(self, header: bytes, send: PlainSend) -> None:
        """Make a stencil of a header that was read to be this send, if it has the usual form."""
        queue, shape, key, number, frame_flag, sys_flag, born, flag, reconsumed = send
        born_at = header.find(_JSON_BORN) + 5
        born_end = born_at + _BORN_BYTES
        id_at = born_end + _JSON_TO_ID
        id_end = id_at + _ID_BYTES
        number_at = header.find(_JSON_NUMBER, id_end) + 9
        rest_at = header.find(b",", number_at)
        holes = (header[born_at:born_end], header[id_at:id_end], header[number_at:rest_at])
        is_usual = (
            header.startswith(_JSON_START)
            and header.endswith(_JSON_ID, born_end, id_at)
            and holes == (b"%d" % born, key, b"%d" % number)
            and key.isalnum()
            and number >= 0
        )
        if is_usual:
            texts = (header[born_end:id_at], header[id_end:number_at], header[rest_at:])
            self._keep(self._json, header[:born_at], texts, (queue, shape, frame_flag, sys_flag, flag, reconsumed))

    # -- binary

    def find_binary(self, data: bytes, at: int, end: int) -> PlainSend | None:
        """The send that the header in these bytes is, if there is a stencil of it."""
        fields_at = at + _BINARY_EXT_AT
        born_at = data.find(_BINARY_BORN, fields_at, end) + 7
        beginning = self._binary.get(data[fields_at:born_at])
        if beginning is None:
            return None
        born_end = born_at + _BORN_BYTES
        id_at = born_end + _BINARY_TO_ID
        id_end = id_at + _ID_BYTES
        found = beginning.last
        if not (
            data.startswith(beginning.middle, born_end)
            and data.startswith(beginning.tail, id_end)
            and end == id_end + len(beginning.tail)
        ):
            # A header that ends inside the id has an empty rest, too: it is none that is known.
            found = beginning.use(data[born_end:id_at], data[id_end:end], b"") if id_end <= end else None
        born, key = data[born_at:born_end], data[id_at:id_end]
        if found is None or not (born.isdigit() and key.isalnum()):
            return None
        number, frame_flag, remark_bytes, ext_bytes = _binary_head(data, at)
        if remark_bytes or ext_bytes != end - fields_at or frame_flag & RESPONSE_BIT:
            return None
        queue, shape, _, sys_flag, flag, reconsumed = found
        return queue, shape, key, number, frame_flag, sys_flag, int(born), flag, reconsumed

    def learn_binary(self, header: bytes, send: PlainSend) -> None:
        """Make a stencil of a header that was read to be this send, if it has the usual form."""
        queue, shape, key, _, _, sys_flag, born, flag, reconsumed = send
        born_at = header.find(_BINARY_BORN, _BINARY_EXT_AT) + 7
        born_end = born_at + _BORN_BYTES
        id_at = born_end + _BINARY_TO_ID
        id_end = id_at + _ID_BYTES
        is_usual = (
            header.endswith(_BINARY_ID, born_end, id_at)
            and (header[born_at:born_end], header[id_at:id_end]) == (b"%d" % born, key)
            and key.isalnum()
        )
        if is_usual:
            texts = (header[born_end:id_at], header[id_end:], b"")
            known = (queue, shape, 0, sys_flag, flag, reconsumed)
            self._keep(self._binary, header[_BINARY_EXT_AT:born_at], texts, known)

    def _keep(self, table: _Table, start: bytes, texts: tuple[bytes, bytes, bytes], known: _Known) -> None:
        if self._count >= STENCIL_COUNT_MAX:
            self.clear()
        self._count += 1
        beginning = table.get(start)
        if beginning is None:
            beginning = table[start] = _Beginning()
        beginning.known[texts] = known
        beginning.use(*texts)
