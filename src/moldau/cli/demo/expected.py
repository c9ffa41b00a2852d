"""What must come out, computed from the input records in plain Python: nothing here is shared with the queries.

One pass over all records in the order of their log, no windows of time in memory, no Spark: the second opinion that the
demo compares its results with.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from moldau.cli.demo import story
from moldau.cli.demo.story import Device, Reason

Climate: TypeAlias = dict[tuple[str, str, int], tuple[int, int, int, int]]
Alarm: TypeAlias = tuple[str, int, int]
Incident: TypeAlias = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an input topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes


@dataclass(slots=True)
class Results:
    """Everything the queries have to get right. Values of sensors are in tenths, times in milliseconds."""

    dead_letters: Counter[str] = field(default_factory=Counter)
    dead_positions: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    readings: Counter[str] = field(default_factory=Counter)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    climate: Climate = field(default_factory=dict)
    """(room, kind, start of the window) -> count, lowest, highest, sum"""
    alarms: Counter[Alarm] = field(default_factory=Counter)
    """(device, time, value)"""
    incidents: Counter[Incident] = field(default_factory=Counter)
    """(server, device, time of the alarm, time of the failed request)"""


def compute(records: Iterable[Record], devices: Mapping[str, Device]) -> Results:
    """The exact results for these records."""
    computation = _Computation(devices)
    for record in records:
        computation.take(record)
    return computation.finish()


class _Computation:
    def __init__(self, devices: Mapping[str, Device]) -> None:
        self._devices = devices
        self._results = Results()
        self._learned: dict[str, tuple[int, float, float]] = {}
        self._values: dict[tuple[str, str, int], list[int]] = {}
        self._failures: list[tuple[str, int]] = []
        self._latest = {"reading": 0, "failure": 0, "alarm": 0}

    def take(self, record: Record) -> None:
        fields = _json_object(record.value)
        problem = self._sensor(record, fields) if record.topic == story.SENSOR_EVENTS else self._web(record, fields)
        if problem is not None:
            self._results.dead_letters[problem] += 1
            self._results.dead_positions[record.topic, record.partition, record.offset] += 1

    def _sensor(self, record: Record, fields: Mapping[str, object]) -> str | None:
        name, value, time_ms = fields.get("device"), fields.get("value"), _milliseconds(fields.get("time"))
        if not isinstance(name, str) or not isinstance(value, int | float) or time_ms is None:
            return Reason.NOT_READABLE
        device = self._devices.get(name)
        if device is None:
            return Reason.UNKNOWN_DEVICE
        if record.timestamp_ms - time_ms > story.TOO_LATE_SECONDS * 1000:
            return Reason.TOO_LATE
        self._results.readings[name] += 1
        self._latest["reading"] = max(self._latest["reading"], time_ms)
        start = time_ms - time_ms % (story.WINDOW_SECONDS * 1000)
        self._values.setdefault((device.room, device.kind, start), []).append(round(value * 10))
        self._watch(name, float(value), time_ms)
        return None

    def _watch(self, device: str, value: float, time_ms: int) -> None:
        count, mean, squares = self._learned.get(device, (0, 0.0, 0.0))
        if count >= story.LEARNING_READINGS:
            deviation = math.sqrt(squares / count)
            if abs(value - mean) > story.ALARM_DEVIATIONS * deviation:
                self._results.alarms[device, time_ms, round(value * 10)] += 1
                self._latest["alarm"] = max(self._latest["alarm"], time_ms)
                return
        count += 1
        step = value - mean
        mean += step / count
        self._learned[device] = (count, mean, squares + step * (value - mean))

    def _web(self, record: Record, fields: Mapping[str, object]) -> str | None:
        server, status, time_ms = fields.get("server"), fields.get("http_reply"), _milliseconds(fields.get("timestamp"))
        if not isinstance(server, str) or not isinstance(status, int) or time_ms is None:
            return Reason.NOT_READABLE
        if record.timestamp_ms - time_ms > story.TOO_LATE_SECONDS * 1000:
            return Reason.TOO_LATE
        self._results.requests[server, status] += 1
        if status >= story.FAILED_STATUS:
            self._failures.append((server, time_ms))
            self._latest["failure"] = max(self._latest["failure"], time_ms)
        return None

    def finish(self) -> Results:
        final_before = min(self._latest.values()) - story.WATERMARK_SECONDS * 1000
        for (room, kind, start), values in self._values.items():
            if start + story.WINDOW_SECONDS * 1000 <= final_before:
                self._results.climate[room, kind, start] = (len(values), min(values), max(values), sum(values))
        for device, alarm_ms, _ in self._results.alarms:
            server = self._devices[device].server
            for failed_server, failed_ms in self._failures:
                if failed_server == server and 0 <= failed_ms - alarm_ms <= story.INCIDENT_SECONDS * 1000:
                    self._results.incidents[server, device, alarm_ms, failed_ms] += 1
        return self._results


def _json_object(value: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(value)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _milliseconds(text: object) -> int | None:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000) if isinstance(text, str) else None
    except ValueError:
        return None
