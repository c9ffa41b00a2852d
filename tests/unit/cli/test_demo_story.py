"""The demo's events and the computation that judges its results."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

from moldau.cli.demo import story
from moldau.cli.demo.events import Event, Story
from moldau.cli.demo.expected import Record, compute
from moldau.cli.demo.generator import Pace
from moldau.cli.demo.story import Reason

START = 1_700_000_040.0
DEVICES = {row.device: row for row in story.device_table()}


def told(seed: int = 1, count: int = 5000) -> list[Event]:
    return list(Story(seed, count, 1800, START).events())


def records(events: list[Event]) -> list[Record]:
    ends: Counter[str] = Counter()
    found = []
    for event in events:
        found.append(Record(event.topic, 0, ends[event.topic], round((START + event.at) * 1000), event.value))
        ends[event.topic] += 1
    return found


def reading(offset: int, seconds: float, value: object, device: str = "web-01/temperature", delay: float = 0) -> Record:
    arrived = START + seconds
    text = {"device": device, "time": f"2023-11-14T22:14:{seconds - delay:06.3f}+00:00", "value": value}
    return Record(story.SENSOR_EVENTS, 0, offset, round(arrived * 1000), json.dumps(text).encode())


def test_a_seed_tells_the_same_story() -> None:
    assert told(seed=7) == told(seed=7)
    assert told(seed=7) != told(seed=8)


def test_every_kind_of_trouble_is_in_it() -> None:
    results = compute(records(told()), DEVICES)
    assert set(results.dead_letters) == {Reason.NOT_READABLE, Reason.UNKNOWN_DEVICE, Reason.TOO_LATE}
    assert min(results.dead_letters.values()) > 3
    assert 15 < len(results.alarms) <= 41
    assert len(results.incidents) > 20
    assert len(results.climate) >= 30 * 2 * len(story.ROOMS)


def test_every_record_is_accounted_for() -> None:
    all_records = records(told())
    results = compute(all_records, DEVICES)
    counted = (results.readings.total(), results.requests.total(), results.dead_letters.total())
    assert sum(counted) == len(all_records)
    assert results.dead_letters.total() == results.dead_positions.total()


def test_only_the_outlier_raises_the_alarm() -> None:
    usual = [reading(number, number % 60, 40.0 + number % 3 * 0.5) for number in range(50)]
    results = compute([*usual, reading(50, 50, 1000.0)], DEVICES)
    assert list(results.alarms) == [("web-01/temperature", round((START + 50) * 1000), 10_000)]


def test_no_outlier_comes_while_the_alarm_still_learns() -> None:
    readings: Counter[str] = Counter()
    for event in told(count=20_000):
        device = event.key.decode()
        if event.topic != story.SENSOR_EVENTS or device not in DEVICES:
            continue
        value = json.loads(event.value)["value"] if event.value.endswith(b"}") else None
        if isinstance(value, float) and value > DEVICES[device].usual + 2 * DEVICES[device].spread:
            assert readings[device] > 1.5 * story.LEARNING_READINGS
        readings[device] += 1


def test_no_alarm_before_enough_was_learned() -> None:
    few = [reading(number, number, 40.0 + number % 2) for number in range(story.LEARNING_READINGS - 1)]
    assert compute([*few, reading(50, 40, 1000.0)], DEVICES).alarms == Counter()


def test_a_doubled_and_a_lost_record_change_the_result() -> None:
    all_records = records(told())
    exact = compute(all_records, DEVICES)
    assert compute([*all_records, replace(all_records[100], offset=10**6)], DEVICES) != exact
    assert compute(all_records[1:], DEVICES) != exact


def test_the_pace_never_comes_to_the_end_before_it_is_released() -> None:
    now, released = [0.0], [False]
    pace = Pace(100.0, 10.0, lambda: released[0], lambda: now[0])
    assert pace.seconds_until(40.0) == 4.0
    for _ in range(1000):
        now[0] += 1.0
        assert pace.seconds_until(100.0) > 0
    released[0] = True
    now[0] += 10.0
    assert pace.seconds_until(100.0) <= 0
