"""What requests are refused with, in Kafka Connect's words."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.web import ApiError

STOP_FIRST = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
)


ALSO_FOUND = (
    "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
)


class NotLeader(Exception):
    """Another worker has to do it."""


def bad_request(message: str) -> ApiError:
    return ApiError(400, message)


def not_found(message: str) -> ApiError:
    return ApiError(404, message)


def no_connector(name: str) -> ApiError:
    return not_found(f"Connector {name} not found")


def exists(name: str) -> ApiError:
    return ApiError(409, f"Connector {name} already exists")


def rebalancing() -> ApiError:
    return ApiError(
        409, "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
    )


def invalid(problems: Sequence[str]) -> ApiError:
    lines = [
        f"Connector configuration is invalid and contains the following {len(problems)} error(s):",
        *problems,
        ALSO_FOUND,
    ]
    return bad_request("\n".join(lines))
