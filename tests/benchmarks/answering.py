"""A server that answers frames, whatever they are."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

Answer = Callable[[bytes], bytes]


class AnsweringServer:
    """Answers every frame with `answer(frame)`; `seen` are the frames, in the order of their arrival."""

    def __init__(self, answer: Answer) -> None:
        self.seen: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                frame = stream.read(struct.unpack(">I", head)[0])
                self.seen.append(frame)
                try:
                    connection.sendall(self._answer(frame))
                except OSError:
                    return


Serve = Callable[[Answer], AnsweringServer]
