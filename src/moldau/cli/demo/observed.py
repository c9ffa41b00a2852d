"""What did come out: the topics as a reader of committed records sees them, and the Parquet files that count."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from moldau.cli.demo import story
from moldau.cli.demo.clients import quiet
from moldau.cli.demo.expected import Record, Results

CALL_SECONDS = 30
RECORDS_PER_READ = 10_000
SILENT_READS = 60


def committed_end(bootstrap: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """Where a reader of committed records ends, for each partition."""
    return _ends(bootstrap, topics, IsolationLevel.READ_COMMITTED)


def written_end(bootstrap: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """Where the logs end, open transactions included."""
    return _ends(bootstrap, topics, IsolationLevel.READ_UNCOMMITTED)


def _ends(bootstrap: str, topics: Sequence[str], isolation: IsolationLevel) -> dict[tuple[str, int], int]:
    admin = AdminClient(quiet(bootstrap))
    places = _partitions(admin, topics)
    asked = admin.list_offsets(
        {place: OffsetSpec.latest() for place in places}, isolation_level=isolation, request_timeout=CALL_SECONDS
    )
    return {(place.topic, place.partition): asked[place].result().offset for place in places}


def _partitions(admin: AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    known = admin.list_topics(timeout=CALL_SECONDS).topics
    return [TopicPartition(topic, partition) for topic in topics for partition in known[topic].partitions]


def read(bootstrap: str, topics: Sequence[str]) -> Iterator[Message]:
    """Every committed record of the topics, in the order of each log, up to where each ends now."""
    places = _partitions(AdminClient(quiet(bootstrap)), topics)
    consumer = Consumer(
        quiet(bootstrap)
        | {
            "group.id": "moldau-demo-proof",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([TopicPartition(place.topic, place.partition, OFFSET_BEGINNING) for place in places])
        unread = {(place.topic, place.partition) for place in places}
        silent = 0
        while unread and silent < SILENT_READS:
            messages = consumer.consume(RECORDS_PER_READ, timeout=0.5)
            silent = 0 if messages else silent + 1
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard((str(message.topic()), message.partition() or 0))
        if unread:
            raise TimeoutError(f"the records of {', '.join(topics)} could not be read to their end")
    finally:
        consumer.close()


def inputs(bootstrap: str, topics: Mapping[str, str]) -> Iterator[Record]:
    """The records of the input topics, under the names that the story gives them."""
    names = {topics[name]: name for name in story.INPUT_TOPICS}
    for message in read(bootstrap, list(names)):
        place = (names[str(message.topic())], message.partition() or 0, message.offset() or 0)
        yield Record(*place, message.timestamp()[1], message.value() or b"")


def outputs(bootstrap: str, topics: Mapping[str, str], results: Path) -> Results:
    """Everything the queries wrote, in the same terms as what was expected."""
    found = Results()
    for message in read(bootstrap, [topics[name] for name in story.OUTPUT_TOPICS]):
        headers: list[Any] = list(message.headers() or [])
        take_message(found, str(message.topic()), message.value() or b"", headers, topics)
    for row in _rows(committed_files(results)):
        take_row(found, row)
    return found


def take_message(
    found: Results, topic: str, value: bytes, headers: Sequence[tuple[str, bytes]], topics: Mapping[str, str]
) -> None:
    """Count one record of an output topic."""
    names = {real: name for name, real in topics.items()}
    if names[topic] == story.DEAD_LETTERS:
        origin = {key: text.decode() for key, text in headers}
        found.dead_letters[origin["problem"]] += 1
        found.dead_positions[names[origin["topic"]], int(origin["partition"]), int(origin["offset"])] += 1
        return
    row = json.loads(value)
    match names[topic]:
        case story.READINGS:
            found.readings[row["device"]] += 1
        case story.REQUESTS:
            found.requests[row["server"], row["status"]] += 1
        case story.ALARMS:
            found.alarms[row["device"], _milliseconds(row["time"]), round(row["value"] * 10)] += 1


def take_row(found: Results, row: Mapping[str, Any]) -> None:
    """Count one row of the files."""
    if row["result"] == "climate":
        place = (row["room"], row["kind"], _milliseconds(row["start"]))
        if place in found.climate:
            raise ValueError(f"the window {place} was written twice")
        lowest, highest, total = (int(row[name] * 10) for name in ("lowest", "highest", "total"))
        found.climate[place] = (row["readings"], lowest, highest, total)
    else:
        times = (_milliseconds(row["alarm_at"]), _milliseconds(row["failed_at"]))
        found.incidents[row["server"], row["device"], *times] += 1


def committed_files(folder: Path) -> list[Path]:
    """The files that Spark's own log of the folder names: a killed batch may have left others, which do not count."""
    log = folder / "_spark_metadata"
    batches = sorted(log.glob("[0-9]*"), key=lambda path: int(path.name.partition(".")[0]))
    compacted = [path for path in batches if path.suffix == ".compact"]
    if compacted:
        batches = batches[batches.index(compacted[-1]) :]
    entries = (json.loads(line) for path in batches for line in path.read_text().splitlines()[1:])
    return [Path(entry["path"].removeprefix("file://")) for entry in entries if entry["action"] == "add"]


def _rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for path in files:
        result = path.parent.name.removeprefix("result=")
        for row in pq.ParquetFile(path).read().to_pylist():
            yield row | {"result": result}


def _milliseconds(time: str | datetime) -> int:
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
