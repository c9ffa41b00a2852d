"""The question "may this client do this?" as Kafka asks it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.security.context import RequestContext
from moldau.types.acls import Operation as Operation
from moldau.types.acls import Resource as Resource

#: What a client reads when it did not ask for authorized operations.
OPERATIONS_NOT_ASKED = -(2**31)

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
    Resource.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip


class Authorizer(Protocol):
    @property
    def keeps_rules(self) -> bool:
        """Whether there is an authorizer at all: without one, rules can neither be made nor seen."""
        ...

    @property
    def version(self) -> int:
        """Another one after each change of the rules."""
        ...

    def load(self, image: ClusterImage) -> None:
        """Takes the rules from the image; `apply` follows its changes."""
        ...

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None: ...

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        audited: bool = True,
        silent: bool = False,
    ) -> bool:
        """`audited` is False where a refusal is not told to the client as one: names are left out of a list, or another
        right would do. `silent`: nothing is done with the answer but to tell it."""
        ...

    def allows_somewhere(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """Whether the operation is allowed on any resource of this kind."""
        ...


class AllowAll:
    keeps_rules = False
    version = 0

    def load(self, image: ClusterImage) -> None:
        pass

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        pass

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        audited: bool = True,
        silent: bool = False,
    ) -> bool:
        return True

    def allows_somewhere(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return True


class TopicSight:
    """The topics that a client may describe, as the coordinators ask for it."""

    __slots__ = ("_authorizer", "_context")

    def __init__(self, authorizer: Authorizer, context: RequestContext) -> None:
        self._authorizer = authorizer
        self._context = context

    @property
    def version(self) -> int:
        return self._authorizer.version

    def sees(self, topic: str) -> bool:
        return self._authorizer.allows(self._context, Operation.DESCRIBE, Resource.TOPIC, topic, silent=True)


def operation_bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


def authorized_operations(authorizer: Authorizer, context: RequestContext, resource: Resource, name: str) -> int:
    return operation_bits(
        operation
        for operation in SUPPORTED[resource]
        if authorizer.allows(context, operation, resource, name, silent=True)
    )
