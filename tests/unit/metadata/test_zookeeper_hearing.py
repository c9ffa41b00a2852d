"""As of when the log is known to have been read to its end."""

from math import inf

from moldau.metadata.zookeeper.hearing import MOST_KEPT, Hearing


def test_nothing_is_known_before_anything_was_proved() -> None:
    assert Hearing().as_of(5) == -inf


def test_a_time_counts_for_who_has_taken_over_what_was_accepted_by_then() -> None:
    hearing = Hearing()
    hearing.prove(5, 10.0)
    hearing.prove(5, 11.0)
    hearing.prove(7, 12.0)
    assert hearing.as_of(4) == -inf
    assert hearing.as_of(5) == hearing.as_of(6) == 11.0
    assert hearing.as_of(7) == hearing.as_of(9) == 12.0


def test_times_do_not_go_back() -> None:
    """Answers may come out of order."""
    hearing = Hearing()
    hearing.prove(5, 10.0)
    hearing.prove(6, 9.0)
    assert hearing.as_of(6) == 10.0


def test_what_nobody_asks_for_is_not_kept_for_ever() -> None:
    hearing = Hearing()
    for revision in range(3 * MOST_KEPT):
        hearing.prove(revision, float(revision))
    assert len(hearing._proofs) == MOST_KEPT
    assert hearing.as_of(3 * MOST_KEPT) == 3 * MOST_KEPT - 1
