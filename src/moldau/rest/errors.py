"""The proxy's errors, with the codes and texts of Confluent's."""

from __future__ import annotations

from typing import Any, Final

from moldau.clients.errors import WHAT_TO_DO, KafkaFailure
from moldau.web import ApiError

BAD_REQUEST: Final = frozenset(
    {
        "INVALID_CONFIG", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "INVALID_REPLICA_ASSIGNMENT",
        "INVALID_REQUEST", "POLICY_VIOLATION", "SECURITY_DISABLED", "TOPIC_ALREADY_EXISTS", "TOPIC_EXCEPTION",
        "UNSUPPORTED_VERSION", "INVALID_TIMESTAMP", "INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE",
        "_INVALID_ARG", "_UNSUPPORTED_FEATURE", "INVALID_GROUP_ID", "NON_EMPTY_GROUP",
    }
)  # fmt: skip
NOT_HOSTED: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID"})
PASSING: Final = frozenset(
    {
        "_ALL_BROKERS_DOWN", "_MSG_TIMED_OUT", "_QUEUE_FULL", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE",
        "_TRANSPORT", "_WAIT_COORD", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
    }
)  # fmt: skip


class RestError(ApiError):
    def __init__(
        self, code: int, message: str, status: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status or (code // 100 if code >= 1000 else code), message, code, headers)


def not_found(message: str) -> RestError:
    return RestError(404, message)


def bad_request(message: str) -> RestError:
    return RestError(400, message)


def topic_not_found() -> RestError:
    return RestError(40401, "Topic not found.")


def partition_not_found() -> RestError:
    return RestError(40402, "Partition not found.")


def instance_not_found() -> RestError:
    return RestError(40403, "Consumer instance not found.")


def leader_not_available() -> RestError:
    return RestError(40404, "Leader not available.")


def format_mismatch() -> RestError:
    text = "The requested embedded data format does not match the deserializer for this consumer instance"
    return RestError(40601, text)


def already_subscribed() -> RestError:
    text = "Consumer cannot subscribe the the specified target because it has already subscribed to other topics."
    return RestError(40901, text)


def instance_exists() -> RestError:
    return RestError(40902, "Consumer with specified consumer ID already exists in the specified consumer group.")


def illegal_state(why: object) -> RestError:
    return RestError(40903, f"Illegal state: {why}")


def schema_missing(part: str) -> RestError:
    code = 42201 if part == "key" else 42202
    return RestError(code, f"Request includes {part}s but does not include {part} schema")


def conversion_failed(why: object) -> RestError:
    return RestError(42203, f"Conversion of JSON to Object failed: {why}")


def invalid_consumer(why: object) -> RestError:
    return RestError(42204, f"Invalid consumer configuration: {why}")


def invalid_schema(why: object) -> RestError:
    return RestError(42205, f"Invalid schema: {why}")


def invalid_payload(why: str) -> RestError:
    return RestError(42206, f"Payload error. {why}")


def no_data() -> RestError:
    return invalid_payload("Null input provided. Data is required.")


def not_serialized(why: object) -> RestError:
    return RestError(42207, f"Error serializing message. {why}")


def invalid_batch(why: str) -> RestError:
    return RestError(42208, why)


def unreadable(where: str, why: object) -> RestError:
    """A record that its format cannot read; Confluent's code for what Java calls a SerializationException."""
    return RestError(40801, f"{where}: {why}")


def too_many(what: str) -> RestError:
    return RestError(429, f"{what} Try again later.", headers={"Retry-After": "1"})


def no_login(realm: str, why: str = "") -> RestError:
    text = f"The cluster refused the login: {why}" if why else "Name and password (HTTP basic) are needed"
    return RestError(40101, text, headers={"WWW-Authenticate": f'Basic realm="{realm}"'})


def of_kafka(error: Any, what: str = "") -> RestError:
    """librdkafka's error as an answer of v3."""
    cause = error.args[0] if isinstance(error, Exception) else error
    if isinstance(error, KafkaFailure):
        return of_name(error.code, error.cause, error.retriable, what)
    return of_name(str(cause.name()), str(cause.str()), bool(cause.retriable()), what)


def of_name(name: str, text: str, retriable: bool, what: str = "") -> RestError:
    advice = WHAT_TO_DO.get(name, "")
    told = f"{what}: {text}" if what else text
    told = f"{told.removesuffix('.')} [{name}]" + (f"; {advice}" if advice else "")
    if name in NOT_HOSTED:
        where = f" ({what})" if what else ""
        return RestError(40403, f"This server does not host this topic-partition{where}.")
    if name == "_UNKNOWN_PARTITION":
        return partition_not_found()
    if name == "GROUP_ID_NOT_FOUND":
        return RestError(40405, f"Consumer group id not found. {told}")
    if name in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
        return RestError(40101, told)
    if name.endswith("AUTHORIZATION_FAILED"):
        return RestError(40301, told)
    if name == "THROTTLING_QUOTA_EXCEEDED":
        return RestError(42901, told, 429)
    if name in BAD_REQUEST:
        return RestError(40002, told)
    return RestError(50003 if retriable or name in PASSING else 50002, f"Kafka error: {told}", 500)


def of_v2(error: RestError) -> RestError:
    """What v2 says of a topic, for what v3 says of it."""
    if error.code == 40403 or (error.code == 40002 and "[TOPIC_EXCEPTION]" in error.message):
        return topic_not_found()
    return leader_not_available() if "[LEADER_NOT_AVAILABLE]" in error.message else error


def delivery_code(name: str, retriable: bool) -> int:
    """What v2 says of a record that was not stored."""
    if name == "_AUTHENTICATION":
        return 40101
    if name.endswith("AUTHORIZATION_FAILED"):
        return 40301
    return 50003 if retriable or name in PASSING else 50002
