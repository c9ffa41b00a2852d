"""The comparison itself: it must see every difference, and excuse only what it was told to."""

from pathlib import Path

from tests.conformance import batches
from tests.conformance.known_differences import KNOWN_DIFFERENCES, KnownDifference
from tests.conformance.messages import decode_response, encode_request
from tests.conformance.normalise import Normaliser
from tests.conformance.recording import ABSENT, Difference, compare, load, store

ANSWER = {"throttle_time": 0, "topics": [{"name": "a", "error_code": "NONE"}, {"name": "b", "error_code": "NONE"}]}


def normaliser() -> Normaliser:
    return Normaliser("tag", "prefix-tag-", time_base=1_700_000_000_000, clock_now=1_700_003_600_000)


def test_equal_answers_have_no_differences() -> None:
    assert compare({"step": ANSWER}, {"step": ANSWER}) == []


def test_a_changed_field_is_named_by_its_path() -> None:
    changed = {
        **ANSWER,
        "topics": [{"name": "a", "error_code": "NONE"}, {"name": "b", "error_code": "INVALID_REQUEST"}],
    }
    found = compare({"step": ANSWER}, {"step": changed})
    assert found == [Difference("step", "topics[b].error_code", "NONE", "INVALID_REQUEST")]


def test_missing_and_additional_parts_are_differences() -> None:
    shorter = {"throttle_time": 0, "topics": ANSWER["topics"][:1]}  # type: ignore[index]
    assert [d.actual for d in compare({"step": ANSWER}, {"step": shorter})] == [ABSENT]
    assert [d.expected for d in compare({"step": shorter}, {"step": ANSWER})] == [ABSENT]
    assert [d.step for d in compare({"one": 1}, {"two": 1})] == ["one", "two"]


def test_zero_false_and_null_differ() -> None:
    assert len(compare({"step": {"a": 0, "b": 0}}, {"step": {"a": False, "b": None}})) == 2


def test_a_known_difference_covers_its_pattern_only() -> None:
    known = KnownDifference("fetch-*", "limit *", "*.records[*]", "reason", expected='{"incomplete batch"*')
    piece = Difference("limit 5", "responses[a].records[1]", {"incomplete batch": 4}, ABSENT)
    assert known.covers("fetch-limits", piece)
    assert not known.covers("produce", piece)
    assert not known.covers("fetch-limits", Difference("limit 5", "responses[a].error_code", 0, 1))
    assert not known.covers(
        "fetch-limits", Difference("limit 5", "responses[a].records[1]", {"base_offset": 4}, ABSENT)
    )


def test_every_known_difference_has_a_reason() -> None:
    assert [known for known in KNOWN_DIFFERENCES if len(known.reason) < 10] == []


def test_recordings_share_equal_answers_of_versions(tmp_path: Path) -> None:
    store(tmp_path, "scenario", "a broker", {1: {"step": ANSWER}, 2: {"step": ANSWER}, 3: {"step": "other"}})
    assert [load(tmp_path, "scenario", version) for version in (1, 2, 3, 4)] == [
        {"step": ANSWER}, {"step": ANSWER}, {"step": "other"}, {},
    ]  # fmt: skip
    assert (tmp_path / "scenario.json").read_text().count("throttle_time") == 1


def test_a_sequence_of_ids_keeps_its_identity() -> None:
    known = normaliser()
    known.name_topic_id("00000000-0000-4000-8000-000000000001", "prefix-tag-a")
    known.name_topic_id("00000000-0000-4000-8000-000000000002", "prefix-tag-a")
    ids = [{"topic_id": f"00000000-0000-4000-8000-00000000000{n}"} for n in (1, 2, 3)]
    shown = [item["topic_id"] for item in known.answer({"list": ids}, ordered=True)["list"]]
    assert shown == ["id of ~a", "id of ~a, incarnation 2", "an unknown id"]


def test_times_are_shown_relative_to_the_session() -> None:
    shown = normaliser().answer(
        [{"timestamp": t} for t in (1_700_000_001_500, 1_700_003_600_200, -1, 1000)], ordered=True
    )
    assert [item["timestamp"] for item in shown] == ["T+1500", "NOW", -1, 1000]


def test_batches_are_described_as_a_reader_sees_them() -> None:
    batch = batches.Batch(batches.records("x", "y"), 1_700_000_000_000, codec=batches.LZ4)
    described = batches.describe(batch.encode() + b"\x00" * 5, ())
    assert described[0]["crc"] == "valid"
    assert described[0]["records"] == [[0, 0, "k", "x"], [1, 1000, "k", "y"]]
    assert described[1] == {"incomplete batch": 5}
    assert batches.describe(batch.but(crc_error=1).encode(), ())[0]["crc"] == "wrong"


def test_requests_take_the_fields_of_their_version() -> None:
    union = {"topics": [{"name": "a"}], "include_cluster_authorized_operations": True}
    assert len(encode_request("metadata", 10, union)) == len(encode_request("metadata", 11, union)) + 1


def test_bytes_after_an_answer_are_noticed() -> None:
    body = bytes(4) + bytes(4)
    assert "bytes after the answer" in decode_response("list_offsets", 2, body + b"\x00")
