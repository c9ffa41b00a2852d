from __future__ import annotations

import pytest

from bench.figures import Figure, Goal, Row, Spread, Verdict, at_least, at_most, under


def test_a_spread_is_median_smallest_and_largest() -> None:
    assert Spread.of([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0)
    assert Spread.of([4.0, 2.0]) == Spread(3.0, 2.0, 4.0)


def test_a_ratio_is_of_the_medians_and_reaches_as_far_as_any_two_repetitions() -> None:
    assert Spread(6.0, 4.0, 8.0).over(Spread(3.0, 2.0, 4.0)) == Spread(2.0, 1.0, 4.0)


def test_there_is_no_ratio_to_nothing() -> None:
    assert Spread(1.0, 1.0, 1.0).over(Spread(1.0, 0.0, 2.0)) is None


@pytest.mark.parametrize(
    ("goal", "seen", "verdict"),
    [
        (at_least(1.5), Spread(2.0, 1.6, 3.0), Verdict.MET),
        (at_least(1.5), Spread(2.0, 1.0, 3.0), Verdict.MET_DOUBTFULLY),
        (at_least(1.5), Spread(1.4, 1.0, 1.5), Verdict.MISSED_DOUBTFULLY),
        (at_least(1.5), Spread(1.2, 1.0, 1.4), Verdict.MISSED),
        (at_most(0.4), Spread(0.3, 0.2, 0.4), Verdict.MET),
        (at_most(0.4), Spread(0.3, 0.2, 0.5), Verdict.MET_DOUBTFULLY),
        (at_most(0.4), Spread(0.5, 0.4, 0.6), Verdict.MISSED_DOUBTFULLY),
        (at_most(0.4), Spread(0.5, 0.45, 0.6), Verdict.MISSED),
    ],
)
def test_verdicts(goal: Goal, seen: Spread, verdict: Verdict) -> None:
    assert goal.judge(seen) is verdict


def test_a_row_judges_the_ratio_or_our_own_figure() -> None:
    ours, theirs = Spread(2.0, 2.0, 2.0), Spread(10.0, 10.0, 10.0)
    assert Row(Figure("k", "time", "s", at_most(0.2)), ours, theirs).verdict is Verdict.MET
    assert Row(Figure("k", "time", "s", under(1.0)), ours, theirs).verdict is Verdict.MISSED
    assert Row(Figure("k", "time", "s"), ours, theirs).verdict is None


def test_without_a_peer_only_goals_in_the_figures_own_unit_are_judged() -> None:
    ours = Spread(0.5, 0.4, 0.6)
    assert Row(Figure("k", "time", "s", at_most(0.2)), ours, None).verdict is None
    assert Row(Figure("k", "time", "s", under(1.0)), ours, None).verdict is Verdict.MET
