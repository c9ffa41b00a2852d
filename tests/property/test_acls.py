"""The indexed authorizer says what a plain reading of Kafka's rules says, whatever rules come and go."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from moldau.security.acl_index import AclIndex
from moldau.types.acls import Acl, AclFilter, Operation, Pattern, Permission, Resource

NAMES = st.sampled_from(["a", "ab", "abc", "abd", "b", "*", "a*", "hardcode", ""])
PRINCIPALS = st.sampled_from(["User:x", "User:y", "User:*", "Group:x"])
HOSTS = st.sampled_from(["*", "1.2.3.4", "::ffff:1.2.3.4", "::1", "0:0:0:0:0:0:0:1", "not.an.address"])
SAME_HOST = {"::ffff:1.2.3.4": "1.2.3.4", "0:0:0:0:0:0:0:1": "::1"}
RULES = st.builds(
    Acl,
    st.sampled_from([Resource.TOPIC, Resource.GROUP]),
    st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
    NAMES.filter(bool),
    PRINCIPALS,
    HOSTS,
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)
QUESTIONS = st.tuples(
    st.sampled_from(["User:x", "User:y", "User:z", "User:*", "Group:x"]),
    st.sampled_from(["1.2.3.4", "::1", "5.6.7.8"]),
    st.sampled_from([each for each in Operation if each is not Operation.ALL]),
    st.sampled_from([Resource.TOPIC, Resource.GROUP]),
    NAMES,
)
IMPLIES_DESCRIBE = {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
IMPLIES_DESCRIBE_CONFIGS = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}


def says(acl: Acl, operation: Operation) -> bool:
    """Whether the rule is about the operation; StandardAuthorizerData.findResult, line by line."""
    if acl.operation is Operation.ALL:
        return True
    if acl.permission is Permission.ALLOW:
        if operation is Operation.DESCRIBE:
            return acl.operation in IMPLIES_DESCRIBE
        if operation is Operation.DESCRIBE_CONFIGS:
            return acl.operation in IMPLIES_DESCRIBE_CONFIGS
    return acl.operation is operation


def plainly(
    acls: Sequence[Acl], default: bool, who: str, host: str, operation: Operation, resource: Resource, name: str
) -> bool:
    about = []
    for acl in acls:
        fits = name.startswith(acl.name) if acl.pattern is Pattern.PREFIXED else acl.name in (name, "*")
        if acl.resource is resource and fits:
            about.append(acl)
    if not about:
        return default
    mine = [
        acl for acl in about if acl.principal in (who, "User:*") and SAME_HOST.get(acl.host, acl.host) in (host, "*")
    ]
    telling = [acl for acl in mine if says(acl, operation)]
    if any(acl.permission is Permission.DENY for acl in telling):
        return False
    return bool(telling)


@given(st.lists(RULES, max_size=12), st.lists(st.integers(0, 11), max_size=6), st.booleans(), st.lists(QUESTIONS))
def test_the_index_decides_like_the_plain_rules(
    rules: list[Acl], removed: list[int], default: bool, questions: list[tuple[str, str, Operation, Resource, str]]
) -> None:
    index = AclIndex(default)
    present = list(rules)
    for acl in rules:
        index.add(acl)

    def agree() -> None:
        for who, host, operation, resource, name in questions:
            expected = plainly(present, default, who, host, operation, resource, name)
            assert bool(index.operations(who, host, resource, name) >> operation & 1) is expected
            reason = index.reason(who, host, operation, resource, name)
            if reason is not None:
                assert reason in present
                assert (reason.permission is Permission.ALLOW) is expected

    agree()
    for position in removed:
        if position < len(present):
            index.remove(present.pop(position))
            agree()


def somewhere_plainly(acls: Sequence[Acl], default: bool, who: str, host: str, op: Operation, kind: Resource) -> bool:
    """The default of Kafka's Authorizer.authorizeByResourceType."""
    if plainly(acls, default, who, host, op, kind, "hardcode"):
        return True
    denied: dict[Pattern, set[str]] = {Pattern.LITERAL: set(), Pattern.PREFIXED: set()}
    allowed: dict[Pattern, set[str]] = {Pattern.LITERAL: set(), Pattern.PREFIXED: set()}
    for acl in acls:
        fits = (
            acl.resource is kind
            and SAME_HOST.get(acl.host, acl.host) in (host, "*")
            and acl.principal in (who, "User:*")
        )
        if fits and acl.operation in (op, Operation.ALL):
            side = denied if acl.permission is Permission.DENY else allowed
            side[acl.pattern].add(acl.name)
    if "*" in denied[Pattern.LITERAL]:
        return False
    if "*" in allowed[Pattern.LITERAL]:
        return True
    for pattern, names in allowed.items():
        for name in names:
            if pattern is Pattern.LITERAL and name in denied[Pattern.LITERAL]:
                continue
            if not any(name.startswith(prefix) for prefix in denied[Pattern.PREFIXED]):
                return True
    return False


@given(st.lists(RULES, max_size=10), st.booleans(), QUESTIONS)
def test_allowed_somewhere_as_kafka_looks(
    rules: list[Acl], default: bool, question: tuple[str, str, Operation, Resource, str]
) -> None:
    who, host, operation, resource, _ = question
    index = AclIndex(default)
    for acl in rules:
        index.add(acl)
    expected = somewhere_plainly(rules, default, who, host, operation, resource)
    assert index.allows_somewhere(who, host, operation, resource) is expected


@given(RULES, NAMES)
def test_a_match_filter_finds_what_covers_the_name(acl: Acl, name: str) -> None:
    matched = AclFilter(pattern=Pattern.MATCH, name=name).matches(acl)
    assert matched is (name.startswith(acl.name) if acl.pattern is Pattern.PREFIXED else acl.name in (name, "*"))
    assert AclFilter(name=name).matches(acl) is (name == acl.name)
    assert AclFilter(pattern=acl.pattern, name=acl.name, principal=acl.principal, operation=acl.operation).matches(acl)
