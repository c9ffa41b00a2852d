from __future__ import annotations

from bench.cluster.cases import catalogue


def test_case_names_are_unique_and_quick_changes_none() -> None:
    names = [case.name for case in catalogue()]
    assert len(set(names)) == len(names)
    assert [case.name for case in catalogue(quick=True)] == names


def test_no_case_has_a_figure_twice() -> None:
    for case in catalogue():
        keys = [figure.key for figure in case.figures]
        assert len(set(keys)) == len(keys), case.name
