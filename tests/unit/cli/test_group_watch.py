"""How fast groups read, from two looks at them."""

from __future__ import annotations

import pytest

from moldau.cli.group.watch import Look, Screen, document, rates
from moldau.cli.output import Format
from moldau.types.ids import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_first_look_knows_no_rate() -> None:
    assert rates(None, Look(5.0, "Stable", 1, {FIRST: 3}, {FIRST: 4})) == (None, None)


def test_rates_are_over_what_both_looks_know() -> None:
    before = Look(10.0, "Stable", 1, {FIRST: 3}, {FIRST: 10})
    now = Look(12.0, "Stable", 1, {FIRST: 9, SECOND: 1000}, {FIRST: 20, SECOND: 1001})
    assert rates(before, now) == (3.0, 5.0)
    assert document("g", before, now, "12:00:00")["lag"] == 11 + 1


def test_a_partition_without_a_known_end_has_no_lag() -> None:
    assert Look(0.0, "Empty", 0, {FIRST: 3}, {}).lag == 0


def test_a_pipe_gets_the_heading_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(Format.table)
    row = document("g", None, Look(0.0, "Empty", 0, {}, {}), "12:00:00")
    screen.show([row])
    screen.show([row])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["TIME", "12:00:00", "12:00:00"]
