"""Requests of a login where none is asked for, and the credentials of SCRAM users: what is kept, found and refused."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

SHA_256, SHA_512 = 1, 2


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096, salted: bytes = b"p" * 32) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": salted,
    }


def deletion(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter(s: Session, step: str, *, upsertions: list[dict[str, Any]], deletions: list[dict[str, Any]]) -> None:
    body = {"deletions": deletions, "upsertions": upsertions}
    s.ask(step, "alter_user_scram_credentials", body, edit=by_user)


def by_user(answer: Any) -> Any:
    return {**answer, "results": sorted(answer["results"], key=lambda result: str(result["user"]))}


@scenario("sasl_handshake")
def handshake_where_nobody_logs_in(s: Session, version: int) -> None:
    s.ask("a mechanism", "sasl_handshake", {"mechanism": "PLAIN"})
    s.ask("an unknown mechanism", "sasl_handshake", {"mechanism": "NONE"})


@scenario("sasl_authenticate")
def login_where_nobody_logs_in(s: Session, version: int) -> None:
    s.ask("a token", "sasl_authenticate", {"auth_bytes": b"\0user\0password"})


@scenario("alter_user_scram_credentials")
def scram_users_come_and_go(s: Session, version: int) -> None:
    alter(s, "nothing", upsertions=[], deletions=[])
    alter(s, "a user", upsertions=[upsertion("conf-a")], deletions=[])
    alter(s, "a second mechanism", upsertions=[upsertion("conf-a", SHA_512, 5000)], deletions=[])
    alter(s, "an empty name", upsertions=[upsertion("")], deletions=[])
    alter(s, "an unknown mechanism", upsertions=[upsertion("conf-b", 7)], deletions=[])
    alter(s, "too few iterations", upsertions=[upsertion("conf-b", iterations=4095)], deletions=[])
    alter(s, "too many iterations", upsertions=[upsertion("conf-b", iterations=16385)], deletions=[])
    alter(s, "twice the same", upsertions=[upsertion("conf-b"), upsertion("conf-b")], deletions=[])
    alter(s, "made and deleted", upsertions=[upsertion("conf-b")], deletions=[deletion("conf-b")])
    alter(s, "nobody deleted", upsertions=[], deletions=[deletion("conf-nobody")])
    alter(s, "one of two deleted", upsertions=[], deletions=[deletion("conf-a"), deletion("conf-nobody")])
    alter(s, "the rest deleted", upsertions=[], deletions=[deletion("conf-a", SHA_512)])


@scenario("describe_user_scram_credentials")
def scram_users_are_found(s: Session, version: int) -> None:
    def asked(step: str, *names: str) -> None:
        body = {"users": [{"name": name} for name in names]}
        s.ask(step, "describe_user_scram_credentials", body, edit=by_user)

    asked("nobody there", "desc-a")
    both = [upsertion("desc-a"), upsertion("desc-a", SHA_512, 5000), upsertion("desc-b")]
    alter(s, "made", upsertions=both, deletions=[])
    asked("one", "desc-a")
    asked("two", "desc-a", "desc-b")
    asked("one of them unknown", "desc-b", "desc-nobody")
    asked("twice the same", "desc-a", "desc-a")
    asked("an empty name", "")
    gone = [deletion("desc-a"), deletion("desc-a", SHA_512), deletion("desc-b")]
    alter(s, "deleted", upsertions=[], deletions=gone)
