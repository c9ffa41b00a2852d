"""The question "may this client do this?" as Kafka asks it. Only allow-all exists so far; ACLs plug in here."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from moldau.security.context import RequestContext

#: What a client reads when it did not ask for authorized operations.
OPERATIONS_NOT_ASKED = -(2**31)


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


#: Operations that make sense on a kind of resource, as Kafka's AclEntry lists them.
SUPPORTED = {
    Resource.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
}  # fmt: skip


class Authorizer(Protocol):
    def allows(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool: ...


class AllowAll:
    def allows(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool:
        return True


def operation_bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


def authorized_operations(authorizer: Authorizer, context: RequestContext, resource: Resource, name: str) -> int:
    return operation_bits(
        operation for operation in SUPPORTED[resource] if authorizer.allows(context, operation, resource, name)
    )
