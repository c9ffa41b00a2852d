"""Asks one broker again and again for the versions of its APIs, which any event loop answers at once, and tells how
long that took at most: what a step of the loop that computes too long does to everybody else.

    python -m bench.cluster.probe ADDRESS PID

Until its input ends, a line is a question: it prints the longest wait since the last one, and the most CPU time that
the main thread of the process used during one wait, both in milliseconds. On a machine with other work to do the first
is mostly the others' doing; the second is not, and no single step can have taken more. A start does not count: a broker
that is not there, or has not answered yet, is asked until it does.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
from pathlib import Path

PAUSE_SECONDS = 0.005
PATIENCE_SECONDS = 30.0
CLIENT = b"probe"
API_VERSIONS = struct.pack(">hhih", 18, 0, 1, len(CLIENT)) + CLIENT
QUESTION = struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS


class Probe:
    def __init__(self, address: str, pid: int) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._used = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self._lock = threading.Lock()
        self._wait_ms = self._busy_ms = 0.0

    def run(self) -> None:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(self._address, PATIENCE_SECONDS) as stream:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._ask(stream)
                while True:
                    self._measure(stream)
                    time.sleep(PAUSE_SECONDS)
            time.sleep(PAUSE_SECONDS)

    def _measure(self, stream: socket.socket) -> None:
        busy, began = self._busy(), time.monotonic()
        self._ask(stream)
        wait_ms, busy_ms = (time.monotonic() - began) * 1000, (self._busy() - busy) / 1e6
        with self._lock:
            self._wait_ms, self._busy_ms = max(self._wait_ms, wait_ms), max(self._busy_ms, busy_ms)

    def _ask(self, stream: socket.socket) -> None:
        stream.sendall(QUESTION)
        left = struct.unpack(">i", received(stream, 4))[0]
        received(stream, left)

    def _busy(self) -> int:
        """Nanoseconds on a processor."""
        return int(self._used.read_text().split()[0])

    def take(self) -> tuple[float, float]:
        with self._lock:
            taken = self._wait_ms, self._busy_ms
            self._wait_ms = self._busy_ms = 0.0
        return taken


def received(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def main(address: str, pid: str) -> None:
    probe = Probe(address, int(pid))
    threading.Thread(target=probe.run, daemon=True).start()
    for _ in sys.stdin:
        print(*(f"{value:.3f}" for value in probe.take()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
