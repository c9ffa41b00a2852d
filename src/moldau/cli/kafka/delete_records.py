"""kafka-delete-records: delete the records before given offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.calls.offsets import delete_records
from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, connect
from moldau.cli.kafka.group_errors import class_and_message
from moldau.cli.kafka.options import Parser, ToolError, value
from moldau.cli.kafka.partition_files import field, partitions_in
from moldau.types.ids import TopicPartition

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
    cluster = connect(options)
    cluster.reach()
    print("Executing records delete operation")
    answers = delete_records(cluster, offsets)
    print("Records delete operation completed:")
    for place, answer in answers.items():
        outcome = f"low_watermark: {answer}" if isinstance(answer, int) else f"error: {class_and_message(answer)}"
        print(f"partition: {place}\t{outcome}")
    return 0


def read_offsets(path: str) -> dict[TopicPartition, int]:
    entries = partitions_in(path, "The input string is not a valid JSON", "Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    twice = []
    for entry in entries:
        place = TopicPartition(field(entry, "topic", str), field(entry, "partition", int))
        if place in offsets:
            twice.append(str(place))
        offsets[place] = field(entry, "offset", int)
    if twice:
        raise ToolError(f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(twice))}")
    return offsets
