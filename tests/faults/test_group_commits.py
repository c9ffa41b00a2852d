"""What cluster_readers lets a group be told of its offsets."""

from __future__ import annotations

from tests.faults.group_commits import GroupCommits, Offsets

TAKEN: dict[int, str] = {}
ONE, OTHER = "member 1", "member 2"


def committed(commits: GroupCommits, member: str, offsets: Offsets) -> None:
    commits.asked(member, offsets)
    commits.answered(member, offsets, TAKEN)


def allowed(commits: GroupCommits, *offsets: int, partition: int = 0) -> list[bool]:
    return [commits.standing(partition).allows(offset) for offset in offsets]


def test_what_was_answered_before_the_next_was_asked_for_does_not_come_back() -> None:
    commits = GroupCommits()
    committed(commits, ONE, {0: 367})
    committed(commits, ONE, {0: 817})
    assert allowed(commits, 367, 816, 817, 900) == [False, False, True, True]


def test_one_that_was_under_way_together_with_the_highest_may_have_come_last() -> None:
    commits = GroupCommits()
    committed(commits, ONE, {0: 300})
    commits.asked(ONE, {0: 367})
    commits.asked(ONE, {0: 817})
    commits.answered(ONE, {0: 817}, TAKEN)
    assert allowed(commits, 300, 367, 368, 816, 817) == [False, True, False, False, True]
    commits.answered(ONE, {0: 367}, TAKEN)
    assert allowed(commits, 300, 367, 368, 816, 817) == [False, True, False, False, True]


def test_a_commit_behind_both_ends_that() -> None:
    commits = GroupCommits()
    commits.asked(ONE, {0: 367})
    commits.asked(ONE, {0: 817})
    commits.answered(ONE, {0: 817}, TAKEN)
    commits.answered(ONE, {0: 367}, TAKEN)
    committed(commits, OTHER, {0: 820})
    assert allowed(commits, 367, 817, 820) == [False, False, True]


def test_one_that_failed_may_have_been_taken_and_replaces_none() -> None:
    commits = GroupCommits()
    commits.asked(ONE, {0: 367, 1: 40})
    commits.asked(ONE, {0: 817, 1: 50})
    commits.answered(ONE, {0: 817, 1: 50}, TAKEN)
    commits.answered(ONE, {0: 367, 1: 40}, {0: "lost", 1: "lost"})
    commits.asked(OTHER, {0: 900, 1: 60})
    commits.answered(OTHER, {0: 900, 1: 60}, {1: "lost"})
    assert allowed(commits, 367, 817, 900) == [False, False, True]
    assert allowed(commits, 39, 40, 49, 50, 60, partition=1) == [False, True, False, True, True]


def test_the_journal_of_a_partition_tells_who_was_told_what() -> None:
    commits = GroupCommits()
    committed(commits, ONE, {0: 7})
    commits.note(0, OTHER, "begins at 7")
    committed(commits, OTHER, {1: 3})
    lines = [line.split(" ", 1)[1] for line in commits.journal(0).splitlines()]
    assert lines == ["member 1 asks for 7", "member 1 is told of 7: committed", "member 2 begins at 7"]
