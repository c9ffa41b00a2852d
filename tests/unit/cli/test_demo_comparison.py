"""The demo's verdict can be bad: each kind of damage is counted as what it is."""

from __future__ import annotations

from array import array

from confluent_kafka import Message

from moldau.cli.demo.traffic import NOT_ACKNOWLEDGED, Findings, _Comparison

FILLING = b"...."


def record(number: int, offset: int, filling: bytes = FILLING) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=number.to_bytes(8, "big") + filling)


def findings(acknowledged_at: list[int], *read: Message) -> Findings:
    comparison = _Comparison(array("q", acknowledged_at), FILLING, partitions=1)
    for message in read:
        comparison.look_at(message)
    return comparison.findings(len(acknowledged_at), ((0, len(read)),))


def test_what_was_acknowledged_is_there() -> None:
    assert findings([0, 1], record(0, 0), record(1, 1)).all_there


def test_a_record_is_missing() -> None:
    result = findings([0, 1], record(0, 0))
    assert (result.missing, result.all_there) == (1, False)


def test_a_record_without_acknowledgement_may_be_missing_or_there() -> None:
    assert findings([0, NOT_ACKNOWLEDGED], record(0, 0)).all_there
    assert findings([0, NOT_ACKNOWLEDGED], record(0, 0), record(1, 1)).all_there


def test_a_record_is_there_twice() -> None:
    result = findings([0, NOT_ACKNOWLEDGED], record(0, 0), record(1, 1), record(1, 2))
    assert (result.twice, result.all_there) == (1, False)


def test_records_are_out_of_order() -> None:
    result = findings([1, 0], record(1, 0), record(0, 1))
    assert (result.out_of_order, result.all_there) == (1, False)


def test_a_record_has_changed_or_moved() -> None:
    assert findings([0], record(0, 0, b"!!!!")).changed == 1
    assert findings([0], record(0, 7)).changed == 1
    assert findings([0], record(9, 0)).changed == 1
