"""The compiled form of `send_reader`; what everything means is said there."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t
from cython.cimports.libc.string import memchr, memcmp, memcpy
from cython.cimports.skyrocketmq.hot._record_batch import Growing, QueueTail, RecordBatch
from cython.cimports.skyrocketmq.hot.big_endian import int32_at, put_int32, put_int64, uint16_at, uint32_at

from skyrocketmq.hot import send_reader as plain
from skyrocketmq.hot.layout import (
    BINARY_BYTES_MIN,
    BINARY_CODE_AT,
    BINARY_FLAG_AT,
    BINARY_NAME_LENGTH_BYTES,
    BINARY_OPAQUE_AT,
    BINARY_REMARK_AT,
    BINARY_VALUE_LENGTH_BYTES,
    FRAME_HEADER_AT,
    FRAME_LENGTH_BYTES,
    FRAME_LENGTH_MAX,
    FRAME_WORD_AT,
    HEADER_BINARY,
    HEADER_LENGTH_MASK,
    NAME_END,
    PAIR_END,
    RECORD_UNQUEUED,
    TICKET_BINARY,
    TICKET_BYTES,
    TICKET_HASTY,
    TICKET_KIND_AT,
    TICKET_LOG_OFFSET_AT,
    TICKET_OPAQUE_AT,
    TICKET_QUEUE_ID_AT,
    TICKET_QUEUE_OFFSET_AT,
)
from skyrocketmq.hot.record_batch import FULL as NO_SPACE

__all__ = ["SendReader", "SendTopic"]

END = plain.END
OTHER = plain.OTHER
NO_ROOM = plain.NO_ROOM
UNKNOWN = plain.UNKNOWN
ENOUGH = plain.ENOUGH
FULL = NO_SPACE
KEYS_AT_ONCE = plain.KEYS_AT_ONCE
SENDS_AT_ONCE = plain.SENDS_AT_ONCE
ONEWAY_BIT = plain.ONEWAY_BIT
RESPONSE_BIT = plain.RESPONSE_BIT
SEND_CODE = plain.SEND_CODE


class SendTopic:
    def __init__(self, queue_count, extra_sys_flag=0):
        self.extra_sys_flag = extra_sys_flag
        self.queues = [None] * queue_count


class SendReader:
    def __init__(self, *, cluster: bytes, store_host: bytes, body_bytes_max):
        self.topics = {}
        self.cluster = cluster
        self.store_host = store_host
        self.body_bytes_max = body_bytes_max
        self.stop = END
        self.needed = 0
        self.unknown_topic = b""
        self.unknown_queue = 0
        self.has_hasty = False
        self._cluster_pair = b"CLUSTER\x01" + cluster
        self._tickets = Growing()
        self._unescaped = Growing()
        self._stored = Growing()

    def take(self, data: bytes, at: int64_t, batch: RecordBatch, born_host: bytes, only_one: cython.bint = False):
        received: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data))
        size: cython.Py_ssize_t = len(data)
        count_max: int64_t = batch.count + SENDS_AT_ONCE
        keys_max: int64_t = batch.key_count + KEYS_AT_ONCE
        length: int64_t
        word: int64_t
        body_at: int64_t
        end: int64_t
        why: cython.int
        if at < 0:
            raise ValueError("frames begin at 0")
        while size - at >= FRAME_HEADER_AT:
            length = uint32_at(received, at)
            word = uint32_at(received, at + FRAME_WORD_AT)
            body_at = at + FRAME_HEADER_AT + (word & HEADER_LENGTH_MASK)
            end = at + FRAME_LENGTH_BYTES + length
            if not at + FRAME_HEADER_AT < body_at <= end or length > FRAME_LENGTH_MAX or word >> 24 > HEADER_BINARY:
                self.stop = OTHER
                return at
            if end > size:
                break
            if batch.count >= count_max or batch.key_count > keys_max:
                self.stop = ENOUGH
                return at
            # From here on all places lie within the frame, and the frame within the data.
            why = self._add(data, at + FRAME_HEADER_AT, body_at, end, word >> 24 == HEADER_BINARY, batch, born_host)
            if why != END:
                self.stop = why
                return at
            at = end
            if only_one:
                break
        self.stop = END
        return at

    def take_tickets(self):
        self.has_hasty = False
        return self._tickets.take()

    def _add(self, data, at, body_at, end, is_binary, batch, born_host):
        received: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data))
        header = cython.declare(Header)
        header.code = header.opaque = header.flag = header.seen = 0
        header.queue_id = header.sys_flag = header.born_ms = header.user_flag = header.reconsume_times = 0
        header.topic_at = header.topic_bytes = header.text_at = header.text_bytes = 0
        header.is_text_escaped = header.is_batch = False
        if is_binary:
            if not read_binary(received, at, body_at, cython.address(header)):
                return OTHER
        else:
            self._is_wide = False
            if not self._read_json(received, at, body_at, cython.address(header)):
                return OTHER
            if self._is_wide and not is_utf8(received + at, body_at - at):
                return OTHER
        # The letters b, e, f, g and h have to be there: topic, queue, system flag, born time, flag.
        if header.code != SEND_CODE or header.flag & RESPONSE_BIT or header.seen & 0xF2 != 0xF2 or header.is_batch:
            return OTHER
        if header.sys_flag & RECORD_UNQUEUED or end - body_at > self.body_bytes_max:
            return OTHER
        name: bytes = PyBytes_FromStringAndSize(
            cython.cast(cython.p_char, received + header.topic_at), header.topic_bytes
        )
        topic: SendTopic = self.topics.get(name)
        queue: QueueTail = None
        if topic is not None and 0 <= header.queue_id < len(topic.queues):
            queue = topic.queues[header.queue_id]
        if queue is None:
            self.unknown_topic = name
            self.unknown_queue = header.queue_id
            return UNKNOWN
        text: cython.p_const_uchar = received + header.text_at
        text_bytes: cython.Py_ssize_t = header.text_bytes
        if header.is_text_escaped:
            if self._unescape(text, text_bytes) == OTHER:
                return OTHER
            text = self._unescaped.data
            text_bytes = self._unescaped.used
        elif is_binary and not is_utf8(text, text_bytes):
            return OTHER
        if self._store_properties(text, text_bytes) == OTHER:
            return OTHER
        queue_offset: int64_t = queue.next_offset
        log_offset: int64_t = batch.put(
            queue,
            self._stored.data,
            self._stored.used,
            received + body_at,
            end - body_at,
            header.user_flag,
            header.sys_flag | topic.extra_sys_flag,
            header.born_ms,
            born_host,
            self.store_host,
            header.reconsume_times,
            0,
            False,
            0,
        )
        if log_offset == FULL:
            self.needed = end - body_at + self._stored.used + 512
            return NO_ROOM
        if log_offset < 0:
            return OTHER
        if not header.flag & ONEWAY_BIT:
            ticket: cython.p_uchar = self._tickets.reserve(TICKET_BYTES)
            put_int32(ticket, TICKET_OPAQUE_AT, header.opaque)
            ticket[TICKET_KIND_AT] = (TICKET_BINARY if is_binary else 0) | (0 if self._waits else TICKET_HASTY)
            put_int32(ticket, TICKET_QUEUE_ID_AT, header.queue_id)
            put_int64(ticket, TICKET_QUEUE_OFFSET_AT, queue_offset)
            put_int64(ticket, TICKET_LOG_OFFSET_AT, log_offset)
            self._tickets.used += TICKET_BYTES
            if not self._waits:
                self.has_hasty = True
        return END

    # ---------------------------------------------------------------------------------------------------- properties

    def _store_properties(self, text, size):
        """Put what is stored into `_stored`: pairs with a name and a value, without WAIT, and CLUSTER after them."""
        names: cython.Py_ssize_t[NAMES_MAX] = cython.declare(cython.Py_ssize_t[NAMES_MAX])
        lengths: cython.Py_ssize_t[NAMES_MAX] = cython.declare(cython.Py_ssize_t[NAMES_MAX])
        count: cython.int = 0
        index: cython.int
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        name_bytes: cython.Py_ssize_t
        value_bytes: cython.Py_ssize_t
        mark: cython.p_const_uchar
        # Every pair is copied once with one separator, so this is room for all of them and the cluster.
        self._stored.used = 0
        stored: cython.p_uchar = self._stored.reserve(size + 2 + len(self._cluster_pair))
        used: cython.Py_ssize_t = 0
        has_wait: cython.bint = False
        self._waits = True
        while at < size:
            mark = cython.cast(cython.p_const_uchar, memchr(text + at, PAIR_END, size - at))
            end = size if mark == cython.NULL else mark - text
            mark = cython.cast(cython.p_const_uchar, memchr(text + at, NAME_END, end - at))
            name_bytes = 0 if mark == cython.NULL else mark - text - at
            value_bytes = end - at - name_bytes - 1
            if name_bytes > 0 and value_bytes > 0:
                if name_bytes == 4 and memcmp(text + at, b"WAIT", 4) == 0:
                    if has_wait:
                        return OTHER
                    has_wait = True
                    value: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, text + at + 5), value_bytes)
                    self._waits = value == b"true" or value.lower() == b"true"
                elif (
                    (name_bytes == 5 and memcmp(text + at, b"DELAY", 5) == 0)
                    or (name_bytes == 7 and memcmp(text + at, b"CLUSTER", 7) == 0)
                    or (name_bytes == 8 and memcmp(text + at, b"TRAN_MSG", 8) == 0)
                    or (name_bytes == 20 and memcmp(text + at, b"INNER_MULTI_DISPATCH", 20) == 0)
                ):
                    return OTHER
                else:
                    if count == NAMES_MAX:
                        return OTHER
                    for index in range(count):
                        if lengths[index] == name_bytes and memcmp(stored + names[index], text + at, name_bytes) == 0:
                            return OTHER
                    names[count] = used
                    lengths[count] = name_bytes
                    count += 1
                    memcpy(stored + used, text + at, end - at)
                    used += end - at
                    stored[used] = PAIR_END
                    used += 1
            at = end + 1
        memcpy(stored + used, PyBytes_AS_STRING(self._cluster_pair), len(self._cluster_pair))
        self._stored.used = used + len(self._cluster_pair)
        return END

    def _unescape(self, text, size):
        """Put a JSON text, whose escapes `_read_text` has found to be good, into `_unescaped` as UTF-8."""
        at: cython.Py_ssize_t = 0
        self._unescaped.used = 0
        out: cython.p_uchar = self._unescaped.reserve(size)  # an escape is longer than what it stands for
        used: cython.Py_ssize_t = 0
        character: cython.int
        unit: cython.int
        while at < size:
            character = text[at]
            at += 1
            if character != 0x5C:  # the backslash
                out[used] = cython.cast(cython.uchar, character)
                used += 1
                continue
            character = text[at]
            at += 1
            if character != 0x75:  # u
                if character == 0x6E:
                    character = 0x0A
                elif character == 0x74:
                    character = 0x09
                elif character == 0x72:
                    character = 0x0D
                elif character == 0x62:
                    character = 0x08
                elif character == 0x66:
                    character = 0x0C
                out[used] = cython.cast(cython.uchar, character)
                used += 1
                continue
            unit = hex_digit(text[at]) << 12 | hex_digit(text[at + 1]) << 8
            unit |= hex_digit(text[at + 2]) << 4 | hex_digit(text[at + 3])
            at += 4
            if unit < 0x80:
                out[used] = cython.cast(cython.uchar, unit)
                used += 1
            elif unit < 0x800:
                out[used] = cython.cast(cython.uchar, 0xC0 | unit >> 6)
                out[used + 1] = cython.cast(cython.uchar, 0x80 | unit & 0x3F)
                used += 2
            else:
                out[used] = cython.cast(cython.uchar, 0xE0 | unit >> 12)
                out[used + 1] = cython.cast(cython.uchar, 0x80 | unit >> 6 & 0x3F)
                out[used + 2] = cython.cast(cython.uchar, 0x80 | unit & 0x3F)
                used += 3
        self._unescaped.used = used
        return END

    # ---------------------------------------------------------------------------------------------------------- JSON

    def _read_json(self, data, at, end, header):
        """A header that is one JSON object with known names; False for any other."""
        name = cython.declare(Value)
        value = cython.declare(Value)
        seen: cython.int = 0
        bit: cython.int
        number: int64_t = 0
        at = skip_blanks(data, at, end)
        if at >= end or data[at] != 0x7B:  # {
            return False
        at = skip_blanks(data, at + 1, end)
        while True:
            if at >= end or data[at] != 0x22:
                return False
            self._read_text(data, at + 1, end, cython.address(name))
            if name.next < 0 or name.is_escaped:
                return False
            at = skip_blanks(data, name.next, end)
            if at >= end or data[at] != 0x3A:  # :
                return False
            at = skip_blanks(data, at + 1, end)
            size: cython.Py_ssize_t = name.end - name.at
            if size == 9 and memcmp(data + name.at, b"extFields", 9) == 0:
                bit = 1
                if at >= end or data[at] != 0x7B:
                    return False
                at = self._read_json_fields(data, at + 1, end, header)
                if at < 0:
                    return False
            else:
                self._read_value(data, at, end, cython.address(value))
                if value.next < 0:
                    return False
                at = value.next
                if size == 8 and memcmp(data + name.at, b"language", 8) == 0:
                    bit = 2
                elif size == 6 and memcmp(data + name.at, b"remark", 6) == 0:
                    bit = 4
                elif size == 23 and memcmp(data + name.at, b"serializeTypeCurrentRPC", 23) == 0:
                    bit = 8
                else:
                    # All others are numbers.
                    if value.is_text or value.is_null:
                        return False
                    if not read_int(data, value.at, value.end, INT32_MIN, INT32_MAX, cython.address(number)):
                        return False
                    if size == 4 and memcmp(data + name.at, b"code", 4) == 0:
                        bit = 16
                        header.code = number
                    elif size == 4 and memcmp(data + name.at, b"flag", 4) == 0:
                        bit = 32
                        header.flag = number
                    elif size == 6 and memcmp(data + name.at, b"opaque", 6) == 0:
                        bit = 64
                        header.opaque = number
                    elif size == 7 and memcmp(data + name.at, b"version", 7) == 0:
                        bit = 128
                    else:
                        return False
                if bit < 16 and not value.is_text and not value.is_null:
                    return False
            if seen & bit:
                return False
            seen |= bit
            at = skip_blanks(data, at, end)
            if at >= end:
                return False
            if data[at] == 0x7D:  # }
                break
            if data[at] != 0x2C:  # ,
                return False
            at = skip_blanks(data, at + 1, end)
        # Code, flag, number and fields have to be there, and nothing after the object.
        return skip_blanks(data, at + 1, end) == end and seen & 0x71 == 0x71

    def _read_json_fields(self, data, at, end, header):
        """The fields after their opening brace; where they end, or -1."""
        name = cython.declare(Value)
        value = cython.declare(Value)
        letter: cython.int
        at = skip_blanks(data, at, end)
        while True:
            if at >= end or data[at] != 0x22:
                return -1
            self._read_text(data, at + 1, end, cython.address(name))
            if name.next < 0 or name.is_escaped:
                return -1
            at = skip_blanks(data, name.next, end)
            if at >= end or data[at] != 0x3A:
                return -1
            self._read_value(data, skip_blanks(data, at + 1, end), end, cython.address(value))
            if value.next < 0 or not (value.is_text or value.is_null):
                return -1
            if name.end - name.at == 1:
                letter = data[name.at]
                if letter == 0x69:  # i: of all texts only properties are unescaped
                    header.is_text_escaped = value.is_escaped
                elif value.is_escaped and 0x62 <= letter <= 0x6D:
                    return -1
                if not value.is_null and not set_field(data, letter, value.at, value.end, header):
                    return -1
            at = skip_blanks(data, value.next, end)
            if at >= end:
                return -1
            if data[at] == 0x7D:
                return at + 1
            if data[at] != 0x2C:
                return -1
            at = skip_blanks(data, at + 1, end)

    def _read_value(self, data, at, end, value):
        """A text, null, or a whole number."""
        value.is_text = value.is_null = value.is_escaped = False
        value.next = -1
        if at >= end:
            return
        if data[at] == 0x22:
            self._read_text(data, at + 1, end, value)
            value.is_text = True
            return
        value.at = at
        if data[at] == 0x6E:
            if end - at < 4 or memcmp(data + at, b"null", 4) != 0:
                return
            value.is_null = True
            value.end = value.next = at + 4
            return
        if data[at] == 0x2D:
            at += 1
        if at < end and data[at] == 0x30 and at + 1 < end and 0x30 <= data[at + 1] <= 0x39:
            return  # JSON has no numbers that begin with 0
        while at < end and 0x30 <= data[at] <= 0x39:
            at += 1
        # What follows a whole number; a fraction or an exponent does not.
        if at < end and data[at] != 0x2C and data[at] != 0x7D and data[at] > 0x20:
            return
        value.end = value.next = at

    def _read_text(self, data, at, end, value):
        """A text after its opening quotation mark."""
        character: cython.int
        unit: cython.int
        value.at = at
        value.next = -1
        value.is_escaped = False
        while at < end:
            character = data[at]
            if character == 0x22:
                value.end = at
                value.next = at + 1
                return
            if character < 0x20:
                return
            if character >= 0x80:
                self._is_wide = True
            elif character == 0x5C:
                value.is_escaped = True
                at += 1
                if at >= end:
                    return
                character = data[at]
                if character == 0x75:
                    if end - at <= 4:
                        return
                    if hex_digit(data[at + 3]) < 0 or hex_digit(data[at + 4]) < 0:
                        return
                    unit = hex_digit(data[at + 1])
                    if unit < 0 or hex_digit(data[at + 2]) < 0:
                        return
                    if unit == 0xD and hex_digit(data[at + 2]) >= 8:
                        return  # half of a pair: such texts are left to others
                    at += 4
                elif (
                    character != 0x22
                    and character != 0x5C
                    and character != 0x2F
                    and character != 0x6E
                    and character != 0x74
                    and character != 0x72
                    and character != 0x62
                    and character != 0x66
                ):
                    return
            at += 1


# ------------------------------------------------------------------------------------------------------------ fields


def read_binary(data, at, end, header):
    """A binary header without a remark, whose fields take all of its rest; False for any other."""
    name_at: cython.Py_ssize_t
    name_bytes: int64_t
    value_bytes: int64_t
    if end - at < BINARY_BYTES_MIN or uint16_at(data, at + BINARY_CODE_AT) != SEND_CODE:
        return False
    header.code = SEND_CODE
    header.opaque = int32_at(data, at + BINARY_OPAQUE_AT)
    header.flag = int32_at(data, at + BINARY_FLAG_AT)
    if (
        uint32_at(data, at + BINARY_REMARK_AT)
        or int32_at(data, at + BINARY_REMARK_AT + 4) != end - at - BINARY_BYTES_MIN
    ):
        return False
    at += BINARY_BYTES_MIN
    while at < end:
        if end - at < BINARY_NAME_LENGTH_BYTES + BINARY_VALUE_LENGTH_BYTES:
            return False
        name_bytes = uint16_at(data, at)
        name_at = at + BINARY_NAME_LENGTH_BYTES
        at = name_at + name_bytes
        if name_bytes < 1 or name_bytes > 0x7FFF or end - at < BINARY_VALUE_LENGTH_BYTES:
            return False
        value_bytes = uint32_at(data, at)
        at += BINARY_VALUE_LENGTH_BYTES
        if value_bytes > end - at:
            return False
        if name_bytes == 1:
            if value_bytes == 0 and 0x62 <= data[name_at] <= 0x6D and data[name_at] != 0x69:
                return False  # it counts as none, whatever came before it; only properties may be empty
            if not set_field(data, data[name_at], at, at + value_bytes, header):
                return False
        at += value_bytes
    return True


def set_field(data, letter, at, end, header):
    """One field of a send by its letter; False if it is there twice, or is not what it should be."""
    number: int64_t = 0
    bit: int64_t
    if letter < 0x61 or letter > 0x6E:
        return True
    bit = cython.cast(int64_t, 1) << (letter - 0x61)
    if header.seen & bit:
        return False
    header.seen |= bit
    if letter == 0x61 or letter == 0x63 or letter == 0x6B or letter == 0x6E:  # a, c, k, n: not needed
        return True
    if letter == 0x62:
        header.topic_at = at
        header.topic_bytes = end - at
        return True
    if letter == 0x69:
        header.text_at = at
        header.text_bytes = end - at
        return True
    if letter == 0x6D:
        header.is_batch = end - at != 5 or memcmp(data + at, b"false", 5) != 0
        return True
    if letter == 0x67:
        if not read_int(data, at, end, INT64_MIN, INT64_MAX, cython.address(number)):
            return False
        header.born_ms = number
        return True
    if not read_int(data, at, end, INT32_MIN, INT32_MAX, cython.address(number)):
        return False
    if letter == 0x65:
        header.queue_id = number
    elif letter == 0x66:
        header.sys_flag = number
    elif letter == 0x68:
        header.user_flag = number
    elif letter == 0x6A:
        header.reconsume_times = number
    return True


def read_int(data, at, end, lowest, highest, number):
    """A number of at most 18 digits; False for anything else, and for one out of bounds."""
    value: int64_t = 0
    is_negative: cython.bint = False
    if at < end and data[at] == 0x2D:
        is_negative = True
        at += 1
    if not 0 < end - at <= 18:
        return False
    while at < end:
        if not 0x30 <= data[at] <= 0x39:
            return False
        value = value * 10 + (data[at] - 0x30)
        at += 1
    if is_negative:
        value = -value
    number[0] = value
    return lowest <= value <= highest


def skip_blanks(data, at, end):
    while at < end and (data[at] == 0x20 or data[at] == 0x0A or data[at] == 0x0D or data[at] == 0x09):
        at += 1
    return at


def hex_digit(character):
    if 0x30 <= character <= 0x39:
        return character - 0x30
    if 0x61 <= character <= 0x66:
        return character - 0x57
    if 0x41 <= character <= 0x46:
        return character - 0x37
    return -1


def is_utf8(text, size):
    at: cython.Py_ssize_t
    for at in range(size):
        if text[at] >= 0x80:
            try:
                PyBytes_FromStringAndSize(cython.cast(cython.p_char, text), size).decode("utf-8")
            except UnicodeDecodeError:
                return False
            return True
    return True
