"""The film of the demo: well-formed, and what it says of kill, dead letters and verdict."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from moldau.cli.demo.expected import Results
from moldau.cli.demo.film import film
from moldau.cli.demo.plot import course, places
from moldau.cli.demo.scene import Sample, Scene

FOUND = Results(
    dead_letters=Counter({"too late": 2, "not readable": 1}),
    readings=Counter({"web-01/power": 50}),
    requests=Counter({("web-01", 200): 47}),
)


def scene(kill_at: float | None = 4.0) -> Scene:
    told = Scene(100, lambda: 10.0)
    told.generated = 100
    told.samples = [Sample(1.0, 30, 0, 30), Sample(3.0, 60, 40, 20), Sample(9.0, 100, 90, 10)]
    told.kill_at, told.back_at = kill_at, None if kill_at is None else 6.0
    return told


def text_of(svg: str) -> str:
    return " ".join(" ".join(ElementTree.fromstring(svg).itertext()).split())


def test_the_last_point_is_what_was_found_and_not_what_was_told() -> None:
    seconds, written, processed = course(scene(), FOUND)
    assert (seconds[-1], written[-1], processed[-1]) == (9.0, 100, 100)
    assert processed[:3] == [0, 40, 90]


def test_every_event_is_in_one_place() -> None:
    assert places(FOUND) == {
        "topic readings": 50,
        "topic requests": 47,
        "topic dead-letters: not readable": 1,
        "topic dead-letters: too late": 2,
    }


def test_it_tells_the_kill_the_dead_letters_and_the_verdict() -> None:
    shown = text_of(film(scene(), FOUND, exact=True))
    assert "SIGKILL" in shown
    assert "97 readings and requests 3 dead letters" in shown
    assert "Exactly once: every result equals" in shown


def test_a_fault_is_told_as_one() -> None:
    shown = text_of(film(scene(), FOUND, exact=False))
    assert "A fault: the results differ" in shown
    assert "Exactly once" not in shown


def test_a_run_without_a_kill_shows_none() -> None:
    svg = film(scene(kill_at=None), FOUND, exact=True)
    assert "SIGKILL" not in text_of(svg)
    assert ".killed" not in svg


def test_a_run_without_samples_is_a_picture_too() -> None:
    empty = Scene(0, lambda: 1.0)
    assert "Exactly once" in text_of(film(empty, Results(), exact=True))
