"""Which parts of a file are in memory, and keeping them there: what Python has no calls for.

Reading a mapped page that is not in memory waits for the device, and the whole interpreter waits with it. Whoever
wants to read through a map asks here first.

Rule: the answer is a hint. A page may be dropped the moment after; then the read waits, and is right all the same.
Where the system has no `mincore`, nothing is ever said to be in memory, and callers take their other way.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import Final

__all__ = ["PageLock", "PageProbe"]

_PAGE_BYTES: Final = mmap.PAGESIZE
_SPAN_BYTES_MAX: Final = 16 << 20  # asked about at once: the answer has a byte for every page


class _Buffer(ctypes.Structure):
    """`Py_buffer`, as far as its first field: where the bytes are. The rest is room that the interpreter fills."""

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_byte * 128))


def _find_mincore() -> ctypes._NamedFuncPointer | None:
    if os.name != "posix":
        return None
    function = getattr(ctypes.CDLL(None), "mincore", None)
    if function is not None:
        function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return function


_mincore = _find_mincore()


class PageProbe:
    """Asks about the pages of a map, best of one that is read: what was read before is answered for most quickly.

    Once the map is closed, the answer is no, or a guess about whatever the system has put in its place.
    """

    __slots__ = ("_address", "_found", "_found_address", "_map", "_size")

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self._size = len(mapped)
        self._address = _address_of(mapped)
        self._found = bytearray(_SPAN_BYTES_MAX // _PAGE_BYTES + 2)  # a byte for each page
        self._found_address = ctypes.addressof(ctypes.c_char.from_buffer(self._found))

    def has(self, position: int, length: int) -> bool:
        """Whether all these bytes are in memory. Too many at once are said not to be."""
        if _mincore is None or length > _SPAN_BYTES_MAX or position + length > self._size:
            return False
        begin = position - position % _PAGE_BYTES
        span = position + length - begin
        if _mincore(self._address + begin, span, self._found_address):
            return False
        return self._found.find(0, 0, -(-span // _PAGE_BYTES)) < 0


class PageLock:
    """A map of a file whose pages the system keeps in memory until `release`. Raises `OSError` where it may not."""

    __slots__ = ("_map",)

    def __init__(self, fd: int, length: int) -> None:
        self._map: mmap.mmap | None = mmap.mmap(fd, length, access=mmap.ACCESS_READ)
        try:
            lock = getattr(ctypes.CDLL(None, use_errno=True), "mlock", None) if os.name == "posix" else None
            if lock is None:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
            lock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
            if lock(_address_of(self._map), length):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Let the system take the pages away again; unmapping ends the lock."""
        if self._map is not None:
            self._map.close()
            self._map = None


def _address_of(mapped: mmap.mmap) -> int:
    """Where a read-only map lies; `ctypes` itself tells it only of writable ones."""
    buffer = _Buffer()
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    if get(ctypes.py_object(mapped), ctypes.byref(buffer), 0):
        raise BufferError("the map has no address")  # the interpreter raises its own before this
    try:
        return int(buffer.address)
    finally:
        release(ctypes.byref(buffer))
