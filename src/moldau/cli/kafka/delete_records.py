"""kafka-delete-records: delete the records before given offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, connect
from moldau.cli.kafka.failures import is_failure
from moldau.cli.kafka.group_errors import class_and_message
from moldau.cli.kafka.options import Parser, ToolError, value
from moldau.cli.kafka.partition_files import field, partitions_in

PARSER: Final = Parser(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    BOOTSTRAP,
    value(
        "offset-json-file",
        "Offset json file path",
        'REQUIRED: a file like {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
    ),
    COMMAND_CONFIG,
)


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    PARSER.require(options, "bootstrap-server", "offset-json-file")
    offsets = read_offsets(options.given("offset-json-file"))
    from confluent_kafka import TopicPartition

    admin = connect(options).admin()
    print("Executing records delete operation")
    wanted = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
    futures = admin.delete_records(wanted, request_timeout=30)
    print("Records delete operation completed:")
    for place, future in futures.items():
        try:
            outcome = f"low_watermark: {future.result().low_watermark}"
        except Exception as error:
            if not is_failure(error):
                raise
            outcome = f"error: {class_and_message(error)}"
        print(f"partition: {place.topic}-{place.partition}\t{outcome}")
    return 0


def read_offsets(path: str) -> dict[tuple[str, int], int]:
    entries = partitions_in(path, "The input string is not a valid JSON", "Missing partitions field")
    offsets: dict[tuple[str, int], int] = {}
    twice = []
    for entry in entries:
        place = (field(entry, "topic", str), field(entry, "partition", int))
        if place in offsets:
            twice.append(f"{place[0]}-{place[1]}")
        offsets[place] = field(entry, "offset", int)
    if twice:
        raise ToolError(f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(twice))}")
    return offsets
