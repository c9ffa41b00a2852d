from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from bench import report
from bench.cases import catalogue, chosen
from bench.figures import Spread, at_least, under
from bench.outcomes import Outcome
from bench.peers import Peer


@pytest.fixture
def outcome() -> Outcome:
    outcome = Outcome(chosen(catalogue(), ["restart-small"])[0], tuple(Peer))
    outcome.repetitions[Peer.MOLDAU] += [
        {"restart_s": 0.25, "other_cores": 0.5},
        {"restart_s": 0.75, "other_cores": 0.7},
    ]
    outcome.repetitions[Peer.APACHE] += [{"restart_s": 5.0, "other_cores": 1.0}, {"restart_s": 5.0, "other_cores": 1.0}]
    return outcome


def shown(outcomes: list[Outcome]) -> str:
    console = Console(file=io.StringIO(), width=150)
    console.print(report.tables(outcomes))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2_345_678.0, "2.35 M"),
        (12_345.6, "12,346"),
        (99.96, "100.0"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.1234, "0.123"),
        (0.0, "0.000"),
        (-12.34, "-12.3"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert report.number(value) == text


def test_goals_and_spreads_in_words() -> None:
    assert report.goal_text(at_least(1.5), "MB/s") == "≥ 1.5"
    assert report.goal_text(under(1.0), "s") == "≤ 1 s"
    assert report.goal_text(None, "s") == "–"
    assert report.spread_text(Spread(2.0, 1.0, 3.0)) == "2.00 [1.00..3.00]"
    assert report.spread_text(None) == "–"


def test_the_table_shows_both_brokers_the_ratio_the_goal_and_the_verdict(outcome: Outcome) -> None:
    line = next(line for line in shown([outcome]).splitlines() if line.split()[:1] == ["time"])
    assert " ".join(line.split()) == "time s 0.500 [0.250..0.750] 5.00 [5.00..5.00] 0.10 ≤ 1 s met"


def test_the_table_names_other_work_and_the_legend_keeps_its_brackets(outcome: Outcome) -> None:
    text = shown([outcome])
    assert "(other work: 0.6 / 1.0)" in text
    assert "median [smallest..largest]" in text


def test_a_case_that_failed_says_why(outcome: Outcome) -> None:
    outcome.failure = "the broker [bad] ended"
    assert "failed: the broker [bad] ended" in shown([outcome])


def test_the_summary_counts_goals(outcome: Outcome) -> None:
    assert report.summary([outcome]) == "1 of 1 goals met"


def test_the_json_holds_every_repetition_and_the_figures(outcome: Outcome) -> None:
    (case,) = json.loads(json.dumps(report.as_json([outcome])))
    assert case["case"] == "restart-small"
    assert [run["restart_s"] for run in case["repetitions"]["moldau"]] == [0.25, 0.75]
    time = case["figures"][0]
    assert time["moldau"] == {"median": 0.5, "low": 0.25, "high": 0.75}
    assert (time["ratio"], time["verdict"]) == (0.1, "met")
    assert time["goal"] == {"bound": "≤", "value": 1.0, "is_ratio": False}
