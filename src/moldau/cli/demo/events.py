"""The events of the demo, from a seed: sensor readings and web logs, some late, some broken, some outliers.

The books' own material: sensors with a device, a time and a value; NASA's web log with host, timestamp, request, reply
and bytes, as one JSON object a line. Time runs faster than the clock, as in their simulator.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from moldau.cli.demo import story
from moldau.cli.demo.story import Device

SHARE_OF_WEB_LOGS = 0.3
SHARE_BROKEN = 0.01
SHARE_TOO_LATE = 0.005
SHARE_LATE = 0.05
OUTLIERS = 40
QUIET_SHARE = 0.1
AFTERWARDS_SECONDS = 2 * 3600
PAGES = ("/shuttle/countdown/", "/", "/shuttle/missions/sts-69/", "/images/ksclogo.gif", "/history/apollo/", "/facts/")


@dataclass(frozen=True, slots=True)
class Event:
    """One record to be written; `at` is when it is sent, in seconds of the story."""

    at: float
    topic: str
    key: bytes
    value: bytes


class Story:
    """A repeatable sequence of events over `seconds` seconds that begin at `start` (seconds since 1970)."""

    def __init__(self, seed: int, count: int, seconds: float, start: float) -> None:
        self.count = count
        self.seconds = seconds
        self.start = start
        self._random = Random(seed)
        self._devices = story.device_table()
        self._outliers = self._choose_outliers()
        self._failing_until: dict[str, float] = {}
        self._readings: Counter[str] = Counter()

    def _choose_outliers(self) -> frozenset[int]:
        first = int(self.count * QUIET_SHARE)
        return frozenset(self._random.sample(range(first, self.count), min(OUTLIERS, self.count // 20)))

    def events(self) -> Iterator[Event]:
        """The events of the story, then the few two hours later that let every window close."""
        for number in range(self.count):
            at = number * self.seconds / self.count
            if number in self._outliers:
                yield self._reading_or_outlier(at)
            elif self._random.random() < SHARE_BROKEN:
                yield self._broken(at)
            elif self._random.random() < SHARE_OF_WEB_LOGS:
                yield self._request(at, at - self._delay())
            else:
                yield self._reading(self._random.choice(self._devices), at, at - self._delay())
        yield from self._afterwards(self.seconds + AFTERWARDS_SECONDS)

    def _afterwards(self, at: float) -> Iterator[Event]:
        for device in self._devices:
            yield self._reading(device, at, at)
        yield self._outlier(self._devices[0], at, at)
        for server in story.SERVERS:
            yield self._web_log(at, at + 1, server, story.FAILED_STATUS, "/")

    def _delay(self) -> float:
        chance = self._random.random()
        if chance < SHARE_TOO_LATE:
            return story.TOO_LATE_SECONDS * self._random.uniform(1.5, 10)
        if chance < SHARE_TOO_LATE + SHARE_LATE:
            return self._random.uniform(5, story.TOO_LATE_SECONDS * 0.9)
        return self._random.uniform(0, 2)

    def _reading(self, device: Device, at: float, happened: float) -> Event:
        self._readings[device.device] += 1
        value = device.usual + self._random.uniform(-device.spread, device.spread)
        return self._sensor(device.device, at, happened, round(value, 1))

    def _reading_or_outlier(self, at: float) -> Event:
        """No outlier while the alarm may still be learning: it would learn it, or not, as batches happen to fall."""
        device = self._random.choice(self._devices)
        settled = self._readings[device.device] >= 2 * story.LEARNING_READINGS
        return self._outlier(device, at, at) if settled else self._reading(device, at, at)

    def _outlier(self, device: Device, at: float, happened: float) -> Event:
        self._failing_until[device.server] = at + story.INCIDENT_SECONDS
        return self._sensor(device.device, at, happened, round(device.usual + 20 * device.spread, 1))

    def _sensor(self, device: str, at: float, happened: float, value: object) -> Event:
        fields = {"device": device, "time": self._clock(happened), "value": value}
        return Event(at, story.SENSOR_EVENTS, device.encode(), json.dumps(fields).encode())

    def _request(self, at: float, happened: float) -> Event:
        server = self._random.choice(story.SERVERS)
        failing = happened < self._failing_until.get(server, 0.0)
        usual = self._random.choices((200, 304, 404, 503), (90, 6, 3.8, 0.2))[0]
        status = story.FAILED_STATUS if failing and self._random.random() < 0.5 else usual
        return self._web_log(at, happened, server, status, self._random.choice(PAGES))

    def _web_log(self, at: float, happened: float, server: str, status: int, page: str) -> Event:
        fields = {
            "host": f"198.51.100.{self._random.randrange(1, 255)}",
            "server": server,
            "timestamp": self._clock(happened),
            "request": f"GET {page} HTTP/1.0",
            "http_reply": status,
            "bytes": self._random.randrange(200, 20_000),
        }
        return Event(at, story.WEB_LOGS, server.encode(), json.dumps(fields).encode())

    def _broken(self, at: float) -> Event:
        device = self._random.choice(self._devices).device
        kind = self._random.randrange(5)
        if kind == 0:
            return Event(at, story.SENSOR_EVENTS, device.encode(), b'{"device": "' + device.encode() + b'", "ti')
        if kind == 1:
            return self._sensor(device, at, at, "n/a")
        if kind == 2:
            return Event(at, story.SENSOR_EVENTS, b"", json.dumps({"time": self._clock(at), "value": 1.0}).encode())
        if kind == 3:
            return self._sensor("web-99/temperature", at, at, 41.0)
        return Event(at, story.WEB_LOGS, b"", b"198.51.100.7 - - GET /shuttle/countdown/ 200 6245\xff")

    def _clock(self, seconds: float) -> str:
        return datetime.fromtimestamp(self.start + seconds, UTC).isoformat(timespec="milliseconds")
