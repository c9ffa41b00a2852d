"""What `moldau txn` does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from moldau.cli import refusals, times
from moldau.cli.calls import transactions
from moldau.cli.calls.transactions import MIN_ISR, NOT_OPEN, ONGOING, Described
from moldau.cli.connection import Connection
from moldau.cli.output import (
    FAILED,
    NOT_FOUND,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    confirm,
    nearest,
    plural,
    progress,
    show,
    warn,
)
from moldau.client.errors import ClientError
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

STATE_TOPIC: Final = "__transaction_state"
LEAST_COPIES: Final = 3
LEAST_IN_SYNC: Final = 2
"""Fewer of either, and one broker that is lost can take what was committed with it."""


def list_transactions(cluster: Connection, states: Sequence[str], longer_than: str | None, output: Format) -> None:
    limit = times.duration_ms(longer_than) if longer_than else -1
    with refusals.while_doing("cannot list the transactions"):
        found = transactions.list_transactions(cluster, states, longer_than_ms=limit)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in sorted(found, key=lambda each: each.transactional_id)
    ]

    def tables() -> list[Table]:
        numbers = (Column("producer id", right=True), Column("coordinator", right=True))
        table = Table([Column("transactional id"), Column("state"), *numbers])
        for row in rows:
            table.add(*row.values())
        return [table]

    show(output, rows, tables, empty="no transactions")


def list_hanging(cluster: Connection, topic: str | None, older_than: str, output: Format) -> None:
    limit = times.duration_ms(older_than)
    places = _places(cluster, topic)
    now_ms = time.time_ns() // 1_000_000
    with progress("asking partitions", len(places)) as advance, refusals.while_doing("cannot ask the partitions"):
        found = transactions.hanging_in(cluster, places, now_ms - limit, advance=advance)
    rows = [
        {
            "topic": each.place.topic,
            "partition": each.place.partition,
            "start_offset": each.start_offset,
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "last_written": times.instant_text(each.producer.last_timestamp),
        }
        for each in found
    ]

    def tables() -> list[Table]:
        numbers = ("partition", "start offset", "producer id", "producer epoch")
        table = Table([Column("topic"), *(Column(heading, right=True) for heading in numbers), Column("last written")])
        for row in rows:
            table.add(*row.values())
        return [table]

    show(output, rows, tables, empty="no transaction hangs")


def _places(cluster: Connection, topic: str | None) -> list[TopicPartition]:
    if topic is not None:
        refusals.described_topics(cluster, [topic])
    with refusals.while_doing("cannot ask for the partitions"):
        return transactions.places_to_search(cluster, topic)


def describe(cluster: Connection, ids: Sequence[str], output: Format) -> None:
    now_ms = time.time_ns() // 1_000_000
    found = [_described(cluster, each) for each in dict.fromkeys(ids)]
    rows = [_document(each, now_ms) for each in found]

    def tables() -> list[Table]:
        table = Table(
            [
                Column("transactional id"),
                Column("state"),
                Column("producer id", right=True),
                Column("epoch", right=True),
                Column("coordinator", right=True),
                Column("timeout", right=True),
                Column("running for", right=True),
                Column("partitions"),
            ]
        )
        for row in rows:
            running = times.duration_text(row["running_ms"]) if row["running_ms"] is not None else None
            parts = [f"{topic}-{number}" for topic, number in row["partitions"]]
            fixed = (row["transactional_id"], row["state"], row["producer_id"], row["producer_epoch"])
            table.add(*fixed, row["coordinator"], times.duration_text(row["timeout_ms"]), running, parts)
        return [table]

    show(output, rows, tables)
    _warn_of_topics_that_may_lose(cluster, {place.topic for each in found for place in each.partitions})


def _warn_of_topics_that_may_lose(cluster: Connection, topics: Collection[str]) -> None:
    """What is committed is as durable as the topics that it lies in, and the topic that says so. Of one whose settings
    the user may not see nothing is said."""
    for topic in sorted({*topics, STATE_TOPIC}):
        with contextlib.suppress(KafkaError, ClientError):
            copies, in_sync = transactions.durability(cluster, topic)
            if copies < LEAST_COPIES or in_sync < LEAST_IN_SYNC:
                warn(
                    f"{topic} has {plural(copies, 'replica')} and {MIN_ISR}={in_sync}: what was committed can be lost "
                    f"with one broker; {LEAST_COPIES} replicas and {MIN_ISR}={LEAST_IN_SYNC} keep it"
                )


def _document(found: Described, now_ms: int) -> dict[str, Any]:
    open_since = found.started_ms if found.started_ms >= 0 and found.state == ONGOING else None
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator": found.coordinator,
        "timeout_ms": found.timeout_ms,
        "started": times.instant_text(open_since) if open_since is not None else None,
        "running_ms": now_ms - open_since if open_since is not None else None,
        "partitions": [list(place) for place in sorted(found.partitions)],
    }


def _described(cluster: Connection, transactional_id: str) -> Described:
    try:
        return transactions.describe(cluster, transactional_id)
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise CommandError(f"transactional id {transactional_id!r}: {error}") from None
        known = [each.transactional_id for each in transactions.list_transactions(cluster)]
        hint = nearest(transactional_id, known) or "`moldau txn list` shows what there is"
        message = f"transactional id {transactional_id!r} does not exist"
        raise CommandError(message, hint, NOT_FOUND) from None


def producers(cluster: Connection, topic: str, only: Sequence[int], output: Format) -> None:
    existing = refusals.partitions_of(cluster, topic)
    if missing := set(only) - set(existing):
        hint = f"it has 0 to {existing[-1]}"
        raise CommandError(f"topic {topic!r} has no partition {min(missing)}", hint, NOT_FOUND)
    places = [TopicPartition(topic, number) for number in sorted(set(only) or existing)]
    with refusals.while_doing(f"cannot ask for the producers of {topic!r}"):
        found = transactions.describe_producers(cluster, places)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "transaction_start": each.current_txn_start_offset if each.current_txn_start_offset != NOT_OPEN else None,
            "last_written": times.instant_text(each.last_timestamp),
        }
        for place in places
        for each in found[place]
    ]

    def tables() -> list[Table]:
        numbers = ("partition", "producer id", "producer epoch", "last sequence", "transaction start")
        table = Table([Column("topic"), *(Column(heading, right=True) for heading in numbers), Column("last written")])
        for row in rows:
            table.add(*row.values())
        return [table]

    show(output, rows, tables, empty="no producers")


def abort(cluster: Connection, transactional_id: str, dry_run: bool, yes: bool) -> None:
    found = _described(cluster, transactional_id)
    if found.state != ONGOING:
        message = f"transactional id {transactional_id!r} has no open transaction: it is {found.state}"
        raise CommandError(message, exit_code=FAILED)
    where = ", ".join(map(str, sorted(found.partitions))) or "no partition yet"
    if dry_run:
        print(f"would abort the transaction of {transactional_id} in {where}")
        return
    confirm(f"Abort the transaction of {transactional_id} in {where} and fence its producer?", yes)
    with refusals.while_doing(f"cannot abort {transactional_id!r}"):
        transactions.fence(cluster, transactional_id, found.timeout_ms)
    print(f"aborted the transaction of {transactional_id} in {where}")


def abort_hanging(
    cluster: Connection,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    if transactional_id is not None or topic is None or partition is None or start_offset is None:
        hint = "give TRANSACTIONAL_ID, or --topic, --partition and --start-offset of one that hangs"
        raise CommandError("say which transaction to abort", hint, WRONG_USAGE)
    place = TopicPartition(topic, partition)
    if partition not in refusals.partitions_of(cluster, topic):
        raise CommandError(f"topic {topic!r} has no partition {partition}", exit_code=NOT_FOUND)
    with refusals.while_doing(f"cannot ask for the producers of {place}"):
        open_here = transactions.open_in(cluster, [place])
    chosen = transactions.begun_at(start_offset, open_here)
    if chosen is None:
        begun = ", ".join(str(each.start_offset) for each in open_here)
        hint = f"open ones began at {begun}" if begun else "none is open there"
        raise CommandError(f"no transaction of {place} began at offset {start_offset}", hint, NOT_FOUND)
    what = f"the transaction of producer {chosen.producer.producer_id} in {place} from offset {start_offset} on"
    if dry_run:
        print(f"would abort {what}")
        return
    confirm(f"Write an abort marker for {what}, without its coordinator?", yes)
    with refusals.while_doing(f"cannot abort the transaction in {place}"):
        transactions.write_abort_marker(cluster, place, chosen.marker)
    print(f"aborted {what}")
