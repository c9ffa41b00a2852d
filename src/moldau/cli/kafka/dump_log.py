"""kafka-dump-log: print segments, indexes, producer snapshots.

Reads files, not a broker; the formats are described in `moldau.wire.batch` and `moldau.storage`. Not read: record
formats v0 and v1 (Kafka before 0.11), files of a KRaft controller, of tiered storage and of share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from moldau.cli.kafka.dump_indexes import Problems, dump_offset_index, dump_snapshot, dump_time_index, dump_txn_index
from moldau.cli.kafka.dump_records import LogDump, Shown, record_parser
from moldau.cli.kafka.options import Options, Parser, ToolError, flag, optional_value, value

WHOLE_FILE: Final = 2**31 - 1
STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"
ELSEWHERE: Final = {
    "cluster-metadata-decoder": "the log of a KRaft controller",
    "remote-log-metadata-decoder": "the log of tiered storage",
    "share-group-state-decoder": "the log of share groups",
}

PARSER: Final = Parser(
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly "
    "corrupt log segment.",
    flag("print-data-log", "Print keys and values too."),
    flag("verify-index-only", "Check indexes against the log without printing them."),
    flag("index-sanity-check", "Only the check of an index that a broker makes when it starts."),
    value("files", "file1, file2, ...", "REQUIRED: the files to print, separated by commas."),
    value("max-message-size", "size", "Bytes of the largest batch.", kind=int, default="5242880"),
    value("max-bytes", "size", "Read so many bytes of a log at most.", kind=int, default=str(WHOLE_FILE)),
    flag("deep-iteration", "Print each record; --print-data-log does so as well."),
    optional_value("value-decoder-class", "String", "String, Long, Integer or Default decoder for values."),
    optional_value("key-decoder-class", "String", "String, Long, Integer or Default decoder for keys."),
    flag("offsets-decoder", "Read the records of __consumer_offsets."),
    flag("transaction-log-decoder", "Read the records of __transaction_state."),
    flag("cluster-metadata-decoder", "Not available."),
    flag("remote-log-metadata-decoder", "Not available."),
    flag("share-group-state-decoder", "Not available."),
    flag("skip-record-metadata", "Print keys and values alone."),
)
DECODERS: Final = (
    "offsets-decoder", "transaction-log-decoder", "value-decoder-class", "key-decoder-class", "print-data-log",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    PARSER.require(options, "files")
    for name, what in ELSEWHERE.items():
        if options.has(name):
            raise ToolError(f"--{name}: {what} is not read here; use Apache Kafka's own tool for it")
    problems = Problems()
    for name in options.given("files").split(","):
        dump(Path(name), options, problems)
    problems.tell()
    return 0


def dump(path: Path, options: Options, problems: Problems) -> None:
    print(f"Dumping {path}")
    by_suffix: dict[str, Callable[[Path, Options, Problems], None]] = {
        ".log": dump_segment,
        ".index": lambda path, options, problems: dump_offset_index(
            path, options.has("index-sanity-check"), options.has("verify-index-only"), problems
        ),
        ".timeindex": lambda path, options, problems: dump_time_index(
            path, options.has("index-sanity-check"), options.has("verify-index-only"), problems
        ),
        ".snapshot": lambda path, options, problems: dump_snapshot(path, problems),
        ".txnindex": lambda path, options, problems: dump_txn_index(path),
    }
    show = by_suffix.get(path.suffix)
    if show is None:
        problems.note(f"Ignoring unknown file {path}")
        return
    show(path, options, problems)


def dump_segment(path: Path, options: Options, problems: Problems) -> None:
    contents = any(map(options.has, DECODERS))
    shown = Shown(
        records=contents or options.has("deep-iteration"),
        contents=contents,
        metadata=not options.has("skip-record-metadata"),
        parse=record_parser(
            offsets=options.has("offsets-decoder"),
            transactions=options.has("transaction-log-decoder"),
            key_decoder=options.text("key-decoder-class") or STRING_DECODER,
            value_decoder=options.text("value-decoder-class") or STRING_DECODER,
        ),
    )
    LogDump(path, shown, options.number("max-bytes"), problems).run(whole=options.number("max-bytes") == WHOLE_FILE)
