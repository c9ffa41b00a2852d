"""What a cluster refused, in the words of `moldau`: one line with what was being done, the cause, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.cli.calls import cluster as cluster_calls
from moldau.cli.calls import groups, topics
from moldau.cli.output import FAILED, NOT_FOUND, UNREACHABLE, WRONG_USAGE, CommandError, nearest
from moldau.types.errors import ErrorCode
from moldau.types.errors import KafkaError as WireRefusal

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal

    from moldau.cli.connection import Connection

V = TypeVar("V")

NOT_ALLOWED: Final = "the user of this profile may not do this"
# Kafka's names; those that begin with an underscore are librdkafka's own.
HINTS: Final = {
    "TOPIC_ALREADY_EXISTS": "use `topic alter` to change it, or --if-not-exists",
    "INVALID_REPLICATION_FACTOR": "there are not that many brokers; `moldau cluster describe` lists them",
    "NON_EMPTY_GROUP": "stop its members first; `moldau group describe` lists them",
    "UNKNOWN_MEMBER_ID": "the group has members; stop them first",
    "TOPIC_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "GROUP_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "CLUSTER_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "DELEGATION_TOKEN_AUTH_DISABLED": "the brokers need delegation.token.secret.key, the same for all of them",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "log in first, with SASL or a certificate, and not with a token",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "only its owner and its renewers may do this",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "POLICY_VIOLATION": "records can be deleted only where cleanup.policy has `delete`",
    "_TIMED_OUT": "the broker did not answer in time; `moldau cluster health` shows whether it is well",
}
EXIT_CODES: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": NOT_FOUND,
    "UNKNOWN_TOPIC_ID": NOT_FOUND,
    "GROUP_ID_NOT_FOUND": NOT_FOUND,
    "INVALID_TOPIC_EXCEPTION": WRONG_USAGE,
    "_TRANSPORT": UNREACHABLE,
    "_ALL_BROKERS_DOWN": UNREACHABLE,
}
KNOWN_CODES: Final = frozenset(map(int, ErrorCode))


def name_of(refused: Refusal) -> str:
    """Kafka's name of an error; librdkafka shortens some."""
    code = int(refused.code())
    return ErrorCode(code).name if code in KNOWN_CODES else str(refused.name())


def failure(doing: str, refused: Refusal) -> CommandError:
    """A refusal as the end of a command."""
    cause = str(refused.str()).removeprefix("Broker: ").removeprefix("Local: ")
    return _ending(doing, cause, name_of(refused))


def _ending(doing: str, cause: str, name: str) -> CommandError:
    return CommandError(f"{doing}: {cause}", HINTS.get(name, ""), EXIT_CODES.get(name, FAILED))


def required(doing: str, answer: V | Refusal) -> V:
    from confluent_kafka import KafkaError

    if isinstance(answer, KafkaError):
        raise failure(doing, answer)
    return answer


@contextmanager
def while_doing(what: str) -> Iterator[None]:
    """Refusals by either client end the command."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise failure(what, error.args[0]) from None
    except WireRefusal as error:
        raise _ending(what, str(error), error.code.name) from None


def metadata(cluster: Connection) -> Any:
    with while_doing("cannot read the cluster's metadata"):
        return cluster_calls.metadata(cluster)


# -- topics that must exist ----------------------------------------------------------------------------------------


def unknown_topic(cluster: Connection, name: str) -> CommandError:
    """With the name that was probably meant."""
    hint = nearest(name, topics.names(cluster)) or "`moldau topic list` shows what there is"
    return CommandError(f"topic {name!r} does not exist", hint, NOT_FOUND)


def described_topics(cluster: Connection, names: Sequence[str]) -> dict[str, Any]:
    """TopicDescription by name; a topic that does not exist ends the command."""
    from confluent_kafka import KafkaException

    try:
        found = topics.describe(cluster, names)
    except (KafkaException, ValueError) as error:
        raise CommandError(f"cannot describe {', '.join(names)!r}: {error}", exit_code=WRONG_USAGE) from None
    return {name: _known_topic(cluster, name, found) for name in names}


def _known_topic(cluster: Connection, name: str, found: Mapping[str, Any]) -> Any:
    from confluent_kafka import KafkaError

    answer = found[name]
    if isinstance(answer, KafkaError):
        if name_of(answer) == "UNKNOWN_TOPIC_OR_PARTITION":
            raise unknown_topic(cluster, name)
        raise failure(f"topic {name!r}", answer)
    return answer


def partitions_of(cluster: Connection, name: str) -> list[int]:
    return sorted(partition.id for partition in described_topics(cluster, [name])[name].partitions)


# -- groups --------------------------------------------------------------------------------------------------------


def unknown_group(cluster: Connection, name: str) -> CommandError:
    hint = nearest(name, groups.names(cluster)) or "`moldau group list` shows what there is"
    return CommandError(f"group {name!r} does not exist", hint, NOT_FOUND)


def described_groups(cluster: Connection, names: Sequence[str]) -> dict[str, Any]:
    """ConsumerGroupDescription by name; a dead one may be a group that nobody knows."""
    found = {}
    for name, answer in groups.describe(cluster, names).items():
        if _is_unknown_group(answer):
            raise unknown_group(cluster, name)
        found[name] = required(f"cannot describe group {name!r}", answer)
    return found


def _is_unknown_group(answer: Any) -> bool:
    from confluent_kafka import KafkaError

    return isinstance(answer, KafkaError) and name_of(answer) == "GROUP_ID_NOT_FOUND"


def existing_groups(cluster: Connection, names: Sequence[str]) -> dict[str, Any]:
    """The same, for groups that must exist."""
    found = described_groups(cluster, names)
    for name, described in found.items():
        if groups.state_name(described.state) == "Dead":
            raise unknown_group(cluster, name)
    return found
