"""CreateAcls, DescribeAcls, DeleteAcls where nobody keeps access rules."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
ANY, MATCH = 1, 2


def rule(s: Session, **changes: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": s.topic_name("a"),
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
        **changes,
    }


def wanted(s: Session, **changes: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": TOPIC,
        "resource_name_filter": s.topic_name("a"),
        "pattern_type_filter": LITERAL,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **changes,
    }


@scenario("create_acls")
def create_acls(s: Session, version: int) -> None:
    s.ask("one rule", "create_acls", {"creations": [rule(s)]})
    s.ask("two rules", "create_acls", {"creations": [rule(s), rule(s, principal="User:bob")]})
    s.ask("no user", "create_acls", {"creations": [rule(s, principal="")]})
    s.ask("a group of users", "create_acls", {"creations": [rule(s, principal="Group:all")]})
    s.ask("nothing", "create_acls", {"creations": []})


@scenario("describe_acls")
def describe_acls(s: Session, version: int) -> None:
    s.ask("of a topic", "describe_acls", wanted(s))
    s.ask("of all", "describe_acls", wanted(s, resource_type_filter=ANY, resource_name_filter=None))
    s.ask("that match", "describe_acls", wanted(s, pattern_type_filter=MATCH))


@scenario("delete_acls")
def delete_acls(s: Session, version: int) -> None:
    s.ask("of a topic", "delete_acls", {"filters": [wanted(s)]})
    s.ask("two filters", "delete_acls", {"filters": [wanted(s), wanted(s, principal_filter="User:bob")]})
    s.ask("nothing", "delete_acls", {"filters": []})
