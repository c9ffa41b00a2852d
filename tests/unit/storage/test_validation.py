"""Validation of produced batches, judged by what Apache Kafka 4.3 answered to the same bytes."""

import json
import re
from pathlib import Path

import pytest

from moldau.kernels import BatchStatus, check_batch
from moldau.storage.errors import RefusedBatchError
from moldau.storage.validation import DECOMPRESSED_LIMIT, validate
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.batch import parse_header
from moldau.wire.compression import compress
from moldau.wire.records import Record, assemble_batch, build_batch, iter_records
from tests.support.logs import NOW, TOPIC_PARTITION, batch, settings
from tests.unit.storage.produce_cases import TOPICS

VERDICTS = json.loads((Path(__file__).parent / "produce_verdicts.json").read_text())

DIFFERENCES = {
    # Kafka stores these offsets as they are, so that two records of a log may have the same offset.
    "plain: offset deltas with a gap": {"offsets": [0, 1, 2]},
    "append-time: offset deltas with a gap": {"offsets": [0, 1, 2]},
    "uncompressed: offset deltas with a gap": {"offsets": [0, 1, 2]},
    # Kafka fails to build a batch of it; the timestamp is as senseless as in the topics where it is taken.
    "gzip: timestamp -2": None,
    "compacted-gzip: timestamp -2": None,
}

CASES = [
    pytest.param(topic, options, build, f"{topic}: {name}", id=f"{topic}: {name}")
    for topic, (options, cases) in TOPICS.items()
    for name, build in cases
    if f"{topic}: {name}" in VERDICTS
]


def _without_numbers(text: str) -> str:
    return re.sub(r"-?\d+", "#", text)


def _relative(timestamp: int) -> int | str:
    if timestamp < 0:
        return timestamp
    return "now" if timestamp == NOW else timestamp - NOW


def _verdict(topic: str, options: dict[str, str], sent: bytes) -> dict[str, object]:
    config = settings(**{name.replace(".", "_"): value for name, value in options.items()})
    try:
        stored, info = validate(
            bytearray(sent), config=config, topic_partition=TopicPartition(topic, 0), now_ms=NOW, produce_version=9
        )
    except RefusedBatchError as error:
        verdict: dict[str, object] = {"error": error.code.name}
        if error.record_errors:
            texts = [[e.batch_index, _without_numbers(e.message.replace(topic, "TOPIC"))] for e in error.record_errors]
            verdict["record_errors"] = texts
        if error.message is not None:
            verdict["message"] = _without_numbers(error.message.replace(topic, "TOPIC"))
        verdict["tells_log_start"] = error.tells_log_start
        return verdict
    header = parse_header(stored)
    assert check_batch(stored, 0, len(stored))[0] in (BatchStatus.OK, BatchStatus.COMPRESSED)
    assert (info.size, info.attributes, info.max_timestamp) == (header.size, header.attributes, header.max_timestamp)
    assert info.record_count == header.count and info.last_offset_delta == header.last_offset_delta
    return {
        "error": "NONE",
        "stored": {
            "attributes": header.attributes,
            "delta": header.last_offset_delta,
            "count": header.count,
            "size_kept": header.size == len(sent),
            "max_ts": _relative(header.max_timestamp),
            "offsets": [record.offset for record in iter_records(stored)],
        },
    }


@pytest.mark.parametrize(("topic", "options", "build", "key"), CASES)
def test_answers_as_kafka_does(topic, options, build, key):
    expected = VERDICTS[key]
    verdict = _verdict(topic, options, build(NOW))
    if key in DIFFERENCES:
        if DIFFERENCES[key] is None:
            assert verdict["error"] == "NONE" and expected["error"] != "NONE"
            return
        expected = {**expected, "stored": {**expected["stored"], **DIFFERENCES[key]}}
    assert verdict == expected


def test_a_good_batch_is_not_copied():
    sent = batch(b"one", b"two")
    stored, info = validate(sent, config=settings(), topic_partition=TOPIC_PARTITION, now_ms=NOW)
    assert stored is sent and info.record_count == 2


def test_a_read_only_buffer_is_copied_before_it_is_changed():
    sent = bytes(batch(b"one"))
    config = settings(message_timestamp_type="LogAppendTime")
    stored, info = validate(memoryview(sent), config=config, topic_partition=TOPIC_PARTITION, now_ms=NOW + 5)
    assert parse_header(stored).max_timestamp == info.max_timestamp == NOW + 5
    assert parse_header(sent).max_timestamp == NOW


def test_a_decompression_bomb_is_refused_without_being_unpacked():
    body = compress(4, bytes(DECOMPRESSED_LIMIT + 1))
    assert len(body) < 100_000
    bomb = assemble_batch(
        body,
        base_offset=0,
        leader_epoch=-1,
        attributes=4,
        last_offset_delta=0,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1,
    )
    with pytest.raises(RefusedBatchError) as refused:
        validate(bytearray(bomb), config=settings(), topic_partition=TOPIC_PARTITION, now_ms=NOW)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_old_produce_versions_may_not_use_zstd():
    sent = bytearray(build_batch([Record(value=b"v", timestamp=NOW)], codec=4))
    with pytest.raises(RefusedBatchError) as refused:
        validate(sent, config=settings(), topic_partition=TOPIC_PARTITION, now_ms=NOW, produce_version=6)
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    validate(sent, config=settings(), topic_partition=TOPIC_PARTITION, now_ms=NOW, produce_version=7)


def test_control_batches_are_not_for_clients():
    sent = batch(control=True, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    with pytest.raises(RefusedBatchError) as refused:
        validate(sent, config=settings(), topic_partition=TOPIC_PARTITION, now_ms=NOW)
    assert refused.value.code is ErrorCode.INVALID_RECORD
