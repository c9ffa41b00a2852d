"""Creating, finding and deleting access rules, with Apache Kafka's checks and words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.metadata import paths, security_codec
from moldau.metadata.controller.decision import MAX_RECORDS_PER_REQUEST, Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Delete, Operation, Put
from moldau.types.acls import (
    ANY,
    CLUSTER_NAME,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    Acl,
    AclFilter,
    Pattern,
    Permission,
    Resource,
)
from moldau.types.acls import Operation as AclOperation
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work, pauses


@dataclass(frozen=True, slots=True)
class WantedAcl:
    """As a client sent it: the numbers may stand for nothing."""

    resource: int
    pattern: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class DeletedAcls:
    """What one filter matched; `code` is why none was looked for."""

    acls: Sequence[Acl] = ()
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def checked(wanted: WantedAcl) -> Acl:
    """Raises INVALID_REQUEST."""
    if wanted.resource == Resource.CLUSTER and wanted.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not wanted.name:
        raise _invalid("Invalid empty resource name")
    if wanted.resource not in RESOURCES:
        raise _invalid(f"Invalid resourceType {_open_word(wanted.resource)}")
    if wanted.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise _invalid(f"Invalid patternType {_pattern_word(wanted.pattern)}")
    if wanted.operation not in OPERATIONS:
        raise _invalid(f"Invalid operation {_open_word(wanted.operation)}")
    if wanted.permission not in PERMISSIONS:
        raise _invalid(f"Invalid permissionType {_open_word(wanted.permission)}")
    check_principal(wanted.principal)
    return Acl(
        Resource(wanted.resource),
        Pattern(wanted.pattern),
        wanted.name,
        wanted.principal,
        wanted.host,
        AclOperation(wanted.operation),
        Permission(wanted.permission),
    )


def check_principal(principal: str) -> None:
    kind, colon, _ = principal.partition(":")
    if not (kind and colon):
        raise _invalid(
            f"Could not parse principal from `{principal}` (no colon is present separating the principal type from "
            "the principal name)"
            if not colon
            else f"Could not parse principal from `{principal}` (no principal type)"
        )


def create_acls(
    image: ClusterImage, wanted: Sequence[WantedAcl], new_uuid: Callable[[], UUID]
) -> Work[Decision[list[KafkaError | None]]]:
    """One by one: None, or why it was not created. One that is there already is as good as created."""
    paused = pauses()
    present: set[Acl] = set()
    for known in image.acls.values():
        present.add(known.acl)
        if next(paused):
            yield
    results: list[KafkaError | None] = []
    operations: list[Operation] = []
    for each in wanted:
        if next(paused):
            yield
        try:
            acl = checked(each)
        except KafkaError as error:
            results.append(error)
            continue
        results.append(None)
        if acl not in present:
            present.add(acl)
            operations.append(Put(paths.acl(new_uuid()), security_codec.encode_acl(acl), ABSENT))
    _check_count(operations)
    return Decision(operations, results)


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> Work[Decision[list[DeletedAcls]]]:
    paused = pauses()
    results: list[DeletedAcls] = []
    deleted: dict[UUID, Operation] = {}
    for wanted in filters:
        problem = _problem_of(wanted)
        if problem is not None:
            results.append(DeletedAcls(code=ErrorCode.INVALID_REQUEST, message=problem))
            continue
        matched = []
        for acl_id, known in image.acls.items():
            if next(paused):
                yield
            if wanted.matches(known.acl):
                matched.append(known.acl)
                deleted[acl_id] = Delete(paths.acl(acl_id), known.version)
        results.append(DeletedAcls(matched))
    _check_count(deleted)
    return Decision(list(deleted.values()), results)


def _check_count(changes: Sequence[object] | dict[UUID, Operation]) -> None:
    if len(changes) > MAX_RECORDS_PER_REQUEST:
        raise _invalid(f"Cannot change more than {MAX_RECORDS_PER_REQUEST} acls in a single operation.")


def _problem_of(wanted: AclFilter) -> str | None:
    if wanted.resource not in {ANY, *RESOURCES} or wanted.pattern not in {ANY, *PATTERNS}:
        return "Unknown patternFilter."
    if wanted.operation not in {ANY, *OPERATIONS} or wanted.permission not in {ANY, *PERMISSIONS}:
        return "Unknown entryFilter."
    return None


def _open_word(number: int) -> str:
    return "ANY" if number == ANY else "UNKNOWN"


def _pattern_word(number: int) -> str:
    return "MATCH" if number == Pattern.MATCH else _open_word(number)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
