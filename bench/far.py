"""One task of format("moldau") whose broker is far away: over one connection, and over several as it does by itself.

    python -m bench.far [--milliseconds 0 10 50] [--rows 4000000] [--repetitions 3]

The distance is a proxy on this machine that passes everything on after half of a round trip. It works on the same cores
as the broker and the reader, so the ratio counts, not the rate.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from socket import SHUT_WR, create_connection, create_server, socket
from threading import Condition, Thread

from rich.console import Console
from rich.table import Table

from bench.figures import Spread
from bench.load import Load, build
from bench.peers import Topics
from moldau.client.settings import ClientSettings, parse_addresses
from moldau.spark.fetching.prefetch import read_split
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split
from tests.support.broker import Broker
from tests.support.process import free_port

CHUNK = 1 << 18
ROW_BYTES = 100
TOPIC = "far"
NEVER_FAR = ReadSettings(far_seconds=float("inf"))
AS_IT_IS = ReadSettings()


class Direction:
    """One direction of a connection: what is received is sent `delay` seconds later."""

    def __init__(self, source: socket, target: socket, delay: float) -> None:
        self._source = source
        self._target = target
        self._delay = delay
        self._changed = Condition()
        self._under_way: deque[tuple[float, bytes]] = deque()
        for work in (self._receive, self._send):
            Thread(target=work, daemon=True).start()

    def _receive(self) -> None:
        while True:
            try:
                data = self._source.recv(CHUNK)
            except OSError:
                data = b""
            with self._changed:
                self._under_way.append((time.monotonic() + self._delay, data))
                self._changed.notify()
            if not data:
                return

    def _send(self) -> None:
        while True:
            with self._changed:
                while not self._under_way:
                    self._changed.wait()
                due, data = self._under_way.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    self._target.shutdown(SHUT_WR)
                    return
                self._target.sendall(data)
            except OSError:
                return


def run_proxy(port: int, broker_port: int, round_trip: float) -> None:
    with create_server(("127.0.0.1", port)) as server:
        while True:
            near, _ = server.accept()
            far = create_connection(("127.0.0.1", broker_port))
            Direction(near, far, round_trip / 2)
            Direction(far, near, round_trip / 2)


def rows_per_second(read: Callable[[], int]) -> float:
    began = time.monotonic()
    return read() / (time.monotonic() - began)


def measure(milliseconds: int, rows: int, repetitions: int) -> tuple[Spread, Spread]:
    """Rates over one connection and as it is, taken in turns."""
    port, broker_port = free_port(), free_port()
    proxy = multiprocessing.get_context("spawn").Process(
        target=run_proxy, args=(port, broker_port, milliseconds / 1000), daemon=True
    )
    proxy.start()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    try:
        with tempfile.TemporaryDirectory() as folder, Broker(Path(folder), listeners) as broker:
            Topics(broker).create(TOPIC, 1)
            build().produce(broker.address, TOPIC, Load(rows, size=ROW_BYTES, partitions=1))
            client = ClientSettings(parse_addresses(f"127.0.0.1:{port}"))
            split = Split(TOPIC, None, 0, 0, rows)

            def read(settings: ReadSettings) -> int:
                return sum(batch.num_rows for batch in read_split(split, client, settings, ("value",)))

            rates: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(repetitions + 1):
                for as_it_is, settings in ((False, NEVER_FAR), (True, AS_IT_IS)):
                    rate = rows_per_second(lambda settings=settings: read(settings))
                    if turn:  # the first one is to warm up
                        rates[as_it_is].append(rate)
    finally:
        proxy.kill()
    return Spread.of(rates[False]), Spread.of(rates[True])


def shown(rate: Spread) -> str:
    return f"{rate.median / 1e6:.2f} M [{rate.low / 1e6:.2f}..{rate.high / 1e6:.2f}]"


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.far", description=__doc__.partition("\n")[0])
    parser.add_argument("--milliseconds", type=int, nargs="+", default=[0, 10, 50], help="there and back")
    parser.add_argument("--rows", type=int, default=4_000_000, help=f"of {ROW_BYTES} B")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args(given)
    console = Console()
    table = Table("there and back", "one connection, rows/s", "as it is, rows/s", "ratio")
    with console.status("measuring"):
        for milliseconds in options.milliseconds:
            one, several = measure(milliseconds, options.rows, options.repetitions)
            table.add_row(f"{milliseconds} ms", shown(one), shown(several), f"{several.median / one.median:.2f}")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
