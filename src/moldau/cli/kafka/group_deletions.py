"""Groups and offsets taken away, as kafka-consumer-groups --delete and --delete-offsets report it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import groups
from moldau.cli.calls.answers import is_refusal
from moldau.cli.calls.reassignments import layout
from moldau.cli.kafka.failures import java_message, java_text
from moldau.cli.kafka.group_errors import class_and_message, print_error
from moldau.cli.kafka.group_resets import partitions_of_argument
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

OF_THE_GROUP: Final = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
OF_PARTITIONS: Final = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def delete_groups(connection: Connection, group_ids: Sequence[str]) -> None:
    done: list[str] = []
    failed: dict[str, str] = {}
    for group_id, answer in groups.delete(connection, list(dict.fromkeys(group_ids))).items():
        if is_refusal(answer):
            failed[group_id] = class_and_message(answer)
        else:
            done.append(group_id)
    listed = ", ".join(f"'{group_id}'" for group_id in done)
    if not failed:
        print(f"Deletion of requested consumer groups ({listed}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group_id, problem in failed.items():
        print(f"* Group '{group_id}' could not be deleted due to: {problem}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {listed}")


def delete_offsets(connection: Connection, group_id: str, topics: Sequence[str]) -> None:
    results: dict[TopicPartition, str | None] = {}
    wanted: set[TopicPartition] = set()
    for argument in topics:
        if ":" in argument:
            wanted |= set(partitions_of_argument(argument))
            continue
        try:
            wanted |= set(layout(connection, [argument]))
        except KafkaError as refused:
            results[TopicPartition(argument, -1)] = java_text(refused.code)
    error = ask(connection, group_id, wanted, results)
    tell(group_id, error, results)


def ask(
    connection: Connection,
    group_id: str,
    wanted: set[TopicPartition],
    results: dict[TopicPartition, str | None],
) -> ErrorCode:
    """Fills in the results and returns the error of the whole: the group's, else the first partition's."""
    try:
        answers = groups.delete_offsets(connection, group_id, wanted)
    except KafkaError as error:
        results |= dict.fromkeys(wanted, java_text(error.code))
        return error.code
    results |= {place: java_text(code) if code else None for place, code in answers.items()}
    return next((code for code in answers.values() if code), ErrorCode.NONE)


def tell(group_id: str, error: ErrorCode, results: dict[TopicPartition, str | None]) -> None:
    if error == ErrorCode.NONE:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif error in OF_THE_GROUP:
        print_error(java_message(error))
    elif error in OF_PARTITIONS:
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {error.name}")
    width = max([15, *(len(topic) for topic, _ in results)])
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}")
    for (topic, index), problem in sorted(results.items(), key=lambda each: f"{each[0][0]}{each[0][1]}"):
        status = "Successful" if problem is None else f"Error: {problem}"
        print(f"{topic:<{width}} {index if index >= 0 else '-':<10} {status:<15}")
