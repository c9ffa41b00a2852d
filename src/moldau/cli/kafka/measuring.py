"""What the measuring tools share: throttling, statistics of latencies, times as Java formats them, client metrics."""

from __future__ import annotations

import json
import time
from array import array
from datetime import datetime
from typing import Any, Final

MEGABYTE: Final = 1024 * 1024
MOST_SAMPLES: Final = 500_000
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
DATE_PARTS: Final = (
    ("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"), ("SSS", "\x1a"),
)  # fmt: skip


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Throttler:
    """Holds a rate of so many records a second; without one it lets everything pass."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start = time.monotonic()

    def wait(self, sent: int) -> float:
        """How long to wait after so many records."""
        if self._rate <= 0:
            return 0.0
        return max(0.0, sent / self._rate - (time.monotonic() - self._start))


class Latencies:
    """Counts records, bytes and latencies, and prints them as kafka-producer-perf-test does."""

    def __init__(self, records: int, interval_ms: int, steady: bool) -> None:
        self._start = self._window_start = now_ms()
        self._sampling = max(1, records // min(records, MOST_SAMPLES))
        self._samples = array("q")
        self._interval_ms = interval_ms
        self._steady = steady
        self.quiet = False
        self.count = self._bytes = self._total = self._largest = 0
        self._window_count = self._window_bytes = self._window_total = self._window_largest = 0

    def record(self, latency_ms: int, size: int, now: int) -> None:
        if self.count % self._sampling == 0:
            self._samples.append(latency_ms)
        self.count += 1
        self._bytes += size
        self._total += latency_ms
        self._largest = max(self._largest, latency_ms)
        self._window_count += 1
        self._window_bytes += size
        self._window_total += latency_ms
        self._window_largest = max(self._window_largest, latency_ms)
        if now - self._window_start >= self._interval_ms:
            if self._steady and self.count == self._window_count:
                print("In steady state.")
            if not self.quiet:
                self._print_window()
            self._window_start = now_ms()
            self._window_count = self._window_bytes = self._window_total = self._window_largest = 0

    def _print_window(self) -> None:
        elapsed = max(1, now_ms() - self._window_start)
        rate = 1000.0 * self._window_count / elapsed
        megabytes = 1000.0 * self._window_bytes / elapsed / MEGABYTE
        average = self._window_total / self._window_count
        print(
            f"{self._window_count} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{average:.1f} ms avg latency, {float(self._window_largest):.1f} ms max latency.",
            flush=True,
        )

    def print_total(self) -> None:
        elapsed = max(1, now_ms() - self._start)
        rate = 1000.0 * self.count / elapsed
        megabytes = 1000.0 * self._bytes / elapsed / MEGABYTE
        average = self._total / self.count if self.count else float("nan")
        ordered = sorted(self._samples) or [0]
        median, p95, p99, p999 = (ordered[min(len(ordered) - 1, int(each * len(ordered)))] for each in PERCENTILES)
        steady = " steady state" if self._steady else ""
        print(
            f"{self.count}{steady} records sent, {rate:.6f} records/sec ({megabytes:.2f} MB/sec), "
            f"{average:.2f} ms avg latency, {float(self._largest):.2f} ms max latency, {median} ms 50th, "
            f"{p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


def date_text(milliseconds: int, pattern: str) -> str:
    """A local time in the plain patterns of Java's SimpleDateFormat (yyyy MM dd HH mm ss SSS)."""
    for java, python in DATE_PARTS:
        pattern = pattern.replace(java, python)
    shown = datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime(pattern)
    return shown.replace("\x1a", f"{milliseconds % 1000:03d}")


class Metrics:
    """The client's own figures: librdkafka's statistics, where Java's tools print those of Java's client."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._last: dict[str, Any] = {}

    def settings(self) -> dict[str, Any]:
        return {"stats_cb": self._take, "statistics.interval.ms": 500} if self._wanted else {}

    def _take(self, text: str) -> None:
        self._last = json.loads(text)

    def show(self) -> None:
        if not self._wanted:
            return
        figures = {name: value for name, value in sorted(self._last.items()) if isinstance(value, int | float)}
        width = max((len(name) for name in figures), default=0)
        print(f"\n{'Metric Name':<{width}}   Value")
        for name, value in figures.items():
            print(f"{name:<{width}} : {value}")
