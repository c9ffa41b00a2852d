"""What the driver does when all tasks of a batch have ended: check, commit what was prepared, say that it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moldau.client.cluster import CoordinatorKind
from moldau.client.errors import ClientError, ConnectionLost
from moldau.client.transactions import OpenTransaction, end_transaction
from moldau.spark.writing.decisions import audit, refuse_stale
from moldau.spark.writing.errors import SinkError
from moldau.spark.writing.identity import Attempt, SinkIdentity
from moldau.spark.writing.links import Links
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.markers import SinkState
from moldau.spark.writing.options import WriteOptions
from moldau.spark.writing.sink_state import SinkRegister
from moldau.spark.writing.task import TaskOutcome
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

ABORT_SECONDS: Final = 10.0
"""The query fails anyhow, and whatever stays open ends by its time-out."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task of an exactly-once write tells the driver."""

    identity: SinkIdentity
    attempt: Attempt
    outcome: TaskOutcome


def commit_batch(
    options: WriteOptions,
    reports: Sequence[TaskReport],
    links: Links,
    *,
    forget: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """`forget`: nobody will come back to this sink; its markers can go."""
    identity = reports[0].identity
    attempt = replace(reports[0].attempt, task=max(report.attempt.task for report in reports))
    store = MarkerStore(links.cluster, identity.group)
    register = SinkRegister(links.cluster, identity, store, options.transaction_ms, monotonic, sleep)
    try:
        state = taken_over(register, identity, attempt, options.starts_at_batch)
        tasks = max(state.tasks, attempt.task + 1)
        prepared = {report.attempt.task for report in reports if report.outcome.prepared is not None}
        markers = store.markers(task for task in range(tasks) if task not in prepared)
        audit(attempt, [report.outcome.result for report in reports], markers)
        for report in reports:
            if report.outcome.prepared is not None:
                commit_prepared(links, store, report, report.outcome.prepared)
        register.finish(attempt)
        if forget:
            forget_group(links, identity.group)
    except ConnectionLost as error:
        raise links.nobody_answers(error) from error
    except (ClientError, KafkaError) as error:
        raise SinkError(f"batch {attempt.batch} could not be finished: {error}") from error


def taken_over(register: SinkRegister, identity: SinkIdentity, attempt: Attempt, starts_at_batch: int) -> SinkState:
    """The state of a sink that is this run's: tasks have seen to that, unless none of them had rows."""
    while True:
        state = register.state()
        refuse_stale(identity, attempt, state, None, starts_at_batch)
        if state is not None and state.run == attempt.run and state.open:
            return state
        register.take_over(attempt, state)


def commit_prepared(links: Links, store: MarkerStore, report: TaskReport, transaction: OpenTransaction) -> None:
    try:
        links.cluster.retrying(lambda: end_transaction(links.cluster, transaction, commit=True))
    except KafkaError as error:
        # The request may have been repeated after it had succeeded; then the marker is there.
        marker = store.markers([report.attempt.task]).get(report.attempt.task)
        result = report.outcome.result
        if marker is None or marker.batch != report.attempt.batch or not marker.holds(result.rows, result.digest):
            raise SinkError(
                f"the prepared transaction of {transaction.transactional_id!r} is gone ({error.code.name}): another "
                "attempt took its id, or it was open for too long. Restart the query: the batch will be completed"
            ) from error


def abort_batch(options: WriteOptions, reports: Sequence[TaskReport], links: Links) -> None:
    """Leaves no prepared transaction open."""
    for report in reports:
        prepared = report.outcome.prepared
        if prepared is None:
            continue
        try:
            links.cluster.retrying(lambda: end_transaction(links.cluster, prepared, commit=False), ABORT_SECONDS)  # noqa: B023
        except (ClientError, KafkaError):
            continue  # its time-out will end it


def forget_group(links: Links, group: str) -> None:
    """Of a batch write that is done. Whatever cannot be deleted expires by itself."""
    request = DeleteGroupsRequest(groups_names=[group])

    def delete() -> None:
        answer = links.cluster.to_coordinator(CoordinatorKind.GROUP, group, request, DeleteGroupsResponse)
        code = answer.results[0].error_code
        if code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            raise KafkaError(ErrorCode(code))

    try:
        links.cluster.retrying(delete, ABORT_SECONDS)
    except (ClientError, KafkaError):
        return
