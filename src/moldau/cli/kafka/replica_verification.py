"""kafka-replica-verification: read all replicas and say whether they hold the same; until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, connect, names_cluster
from moldau.cli.kafka.options import Parser, ToolError, value

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.types.ids import TopicPartition

PARSER: Final = Parser(
    "Validate that all replicas for a set of topics have the same data.",
    value("broker-list", "hostname:port,...,hostname:port", "REQUIRED: the brokers to begin with."),
    BOOTSTRAP,
    COMMAND_CONFIG,
    value("fetch-size", "bytes", "How much to read of a partition at once.", kind=int, default="1048576"),
    value("max-wait-ms", "ms", "How long a broker may wait for new records.", kind=int, default="1000"),
    value("topics-include", "regex", "A regular expression for the topics to compare.", default=".*"),
    value("time", "timestamp/-1(latest)/-2(earliest)", "Where to begin.", kind=int, default="-1"),
    value("report-interval-ms", "ms", "How often to say how far it is.", kind=int, default="30000"),
)


def main(arguments: Sequence[str]) -> int:
    from moldau.cli.calls import reassignments

    options = PARSER.parse(arguments)
    if not names_cluster(options):
        raise PARSER.missing("broker-list")
    cluster = connect(options)
    layout = reassignments.layout(cluster, wanted_topics(cluster, options.given("topics-include")))
    if not layout:
        raise ToolError("No topics found. [topics-include] if specified, is either filtering out all topics or there "
                        "is no topic.")  # fmt: skip
    offsets = first_offsets(cluster, list(layout), options.number("time"))
    say("verification process is started")
    verifier = Verifier(cluster, layout, offsets, options.number("fetch-size"), options.number("max-wait-ms"))
    interval = options.number("report-interval-ms") / 1000
    reported = time.monotonic()
    while verifier.turn():
        if time.monotonic() - reported > interval:
            lag, place = verifier.largest_lag()
            say(
                f"max lag is {lag} for partition {place} at offset {verifier.offsets[place]} "
                f"among {len(layout)} partitions"
            )
            reported = time.monotonic()
    return 1


class Verifier:
    """How far all replicas were found to be equal."""

    def __init__(
        self,
        cluster: Connection,
        layout: Mapping[TopicPartition, Sequence[int]],
        offsets: dict[TopicPartition, int],
        fetch_bytes: int,
        max_wait_ms: int,
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self.offsets = offsets
        self._ends: dict[TopicPartition, int] = dict(offsets)
        self._fetch_bytes = fetch_bytes
        self._max_wait_ms = max_wait_ms

    def turn(self) -> bool:
        """Reads a little from every replica; False where two of them cannot be compared any further."""
        from moldau.cli.replicas.comparison import Part, compare, fetched

        found: dict[TopicPartition, dict[int, Part]] = {place: {} for place in self._layout}
        for broker in sorted({broker for replicas in self._layout.values() for broker in replicas}):
            wanted = {place: self.offsets[place] for place, replicas in self._layout.items() if broker in replicas}
            for place, part in fetched(self._cluster, broker, wanted, self._fetch_bytes, self._max_wait_ms).items():
                found[place][broker] = part
        goes_on = True
        for place, parts in found.items():
            self._ends[place] = max([self._ends[place], *(part.high_watermark for part in parts.values())])
            if len(parts) < len(self._layout[place]):
                continue
            compared = compare(self.offsets[place], parts)
            self.offsets[place] = compared.next_offset
            for difference in compared.differences:
                say(f"partition {place}{difference}")
            goes_on = goes_on and not compared.parted
        return goes_on

    def largest_lag(self) -> tuple[int, TopicPartition]:
        """How much of what is committed is still to be compared, where that is most."""
        return max((self._ends[place] - self.offsets[place], place) for place in self._layout)


def wanted_topics(cluster: Connection, pattern: str) -> list[str]:
    import re2

    from moldau.cli.calls import topics

    try:
        chosen = re2.compile(pattern.replace(",", "|"))
    except re2.error:
        raise ToolError(f"{pattern} is an invalid regex") from None
    return [name for name in topics.names(cluster) if chosen.fullmatch(name)]


def first_offsets(cluster: Connection, places: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
    from moldau.cli.calls.answers import demanded
    from moldau.cli.calls.offsets import NOTHING_THAT_LATE, At, listed

    found = {place: demanded(answer) for place, answer in listed(cluster, places, at).items()}
    late = [place for place, offset in found.items() if offset == NOTHING_THAT_LATE]
    return found | (
        {place: demanded(answer) for place, answer in listed(cluster, late, At.END).items()} if late else {}
    )


def say(text: str) -> None:
    print(f"{datetime.now().astimezone().strftime('%Y-%m-%d %H:%M:%S,%f')[:-3]}: {text}", flush=True)
