from __future__ import annotations

import pytest

from bench.cases import catalogue, chosen
from bench.load import Load
from bench.outcomes import Outcome
from bench.peers import Peer
from bench.runner import Plan


def test_case_names_are_unique_and_quick_changes_none() -> None:
    names = [case.name for case in catalogue()]
    assert len(set(names)) == len(names)
    assert [case.name for case in catalogue(quick=True)] == names


def test_no_case_has_a_figure_twice() -> None:
    for case in catalogue():
        keys = [figure.key for figure in case.figures]
        assert len(set(keys)) == len(keys), case.name


def test_cases_are_chosen_by_name_or_pattern_in_their_own_order() -> None:
    assert [case.name for case in chosen(catalogue(), ["start", "sync-*"])] == ["sync-1", "sync-8", "sync-32", "start"]
    assert len(chosen(catalogue(), [])) == len(catalogue())


def test_a_name_that_fits_no_case_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"no case is called nonsense; there are: .*pipelined"):
        chosen(catalogue(), ["start", "nonsense"])


def test_the_steps_of_a_plan_are_warm_ups_and_repetitions_for_each_broker() -> None:
    under_load, on_its_own = chosen(catalogue(), ["sync-1"])[0], chosen(catalogue(), ["start"])[0]
    assert Plan([under_load], list(Peer), repetitions=3, quick=False).steps == 2 * (1 + 1 + 3)
    assert Plan([on_its_own], list(Peer), repetitions=3, quick=False).steps == 2 * 3
    assert Plan([under_load, on_its_own], [Peer.MOLDAU], repetitions=2, quick=False).steps == 1 + 1 + 2 + 2
    locked = chosen(catalogue(), ["tls"])[0]
    assert Plan([under_load, locked], [Peer.MOLDAU], repetitions=2, quick=False).steps == 2 * (1 + 1 + 2)


def test_an_outcome_gathers_the_repetitions_of_each_broker() -> None:
    outcome = Outcome(chosen(catalogue(), ["start"])[0], tuple(Peer))
    outcome.repetitions[Peer.MOLDAU] += [{"start_s": 0.3}, {"start_s": 0.2}, {"start_s": 0.4}]
    outcome.repetitions[Peer.APACHE] += [{"start_s": 3.0}]
    time = outcome.rows()[0]
    assert time.ours is not None
    assert (time.ours.median, time.ours.low, time.ours.high) == (0.3, 0.2, 0.4)
    assert time.ratio is not None
    assert time.ratio.median == pytest.approx(0.1)
    assert outcome.rows()[1].ours is None


def test_the_arguments_of_a_load() -> None:
    load = Load(10, size=5, codec="lz4", acks="all", settings=("batch.num.messages=1",))
    assert load.payload_bytes == 50
    assert {"--count=10", "--size=5", "--codec=lz4", "--acks=all", "--set=batch.num.messages=1"} <= set(
        load.arguments()
    )
