"""The quota of topic changes (KIP-599): who is refused beyond it, who is only made to wait.

The limit is so low that whatever is asked first takes all that may ever be saved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.client_quotas import entry, kept, limit, removal
from tests.conformance.session import Session

Plain = Any
KEY = "controller_mutation_rate"


@contextmanager
def limited(s: Session) -> Iterator[None]:
    """Debts are remembered as long as somebody might return: each time it is another client."""
    who = s.topic_name("greedy")
    kept(s, entry([limit(KEY, 0.01)], client_id=who))
    s.client.client_id = who
    s.client.close()
    yield
    s.send("alter_client_quotas", {"entries": [entry([removal(KEY)], client_id=who)], "validate_only": False})


def waiting(answer: Plain) -> Plain:
    return {**answer, "throttle_time": "WAIT" if answer["throttle_time"] > 0 else 0}


def ask(s: Session, step: str, api: str, content: Plain) -> None:
    """On a connection of its own: those that have to wait are silent for long."""
    other = replace(s, client=s.client.another())
    try:
        other.ask(step, api, content, edit=waiting)
    finally:
        other.client.close()


@scenario("create_topics")
def create_topics_beyond_a_quota(s: Session, version: int) -> None:
    def creation(*labels: str, **more: Plain) -> Plain:
        topics = [{"name": s.topic_name(each), "num_partitions": 2, "replication_factor": 1} for each in labels]
        return {"topics": topics, "timeout": 5000, **more}

    with limited(s):
        ask(s, "refused for another reason", "create_topics", creation("bad name", "bad/name"))
        ask(s, "the first", "create_topics", creation("a"))
        ask(s, "the second", "create_topics", creation("b"))
        ask(s, "only validated", "create_topics", creation("c", validate_only=True))
        ask(s, "one that exists, one more", "create_topics", creation("a", "d"))


@scenario("create_partitions")
def create_partitions_beyond_a_quota(s: Session, version: int) -> None:
    names = [s.create(label).name for label in ("a", "b")]

    def growth(name: str, count: int) -> Plain:
        wanted = {"name": name, "count": count, "assignments": None}
        return {"topics": [wanted], "timeout": 5000, "validate_only": False}

    with limited(s):
        ask(s, "too few", "create_partitions", growth(names[0], 1))
        ask(s, "the first", "create_partitions", growth(names[0], 3))
        ask(s, "the second", "create_partitions", growth(names[1], 3))


@scenario("delete_topics")
def delete_topics_beyond_a_quota(s: Session, version: int) -> None:
    names = [s.create(label).name for label in ("a", "b", "c")]

    def deletion(*wanted: str) -> Plain:
        return {"topic_names": list(wanted), "topics": [{"name": each} for each in wanted], "timeout": 5000}

    with limited(s):
        ask(s, "unknown", "delete_topics", deletion(s.topic_name("missing")))
        ask(s, "the first", "delete_topics", deletion(names[0]))
        ask(s, "the others", "delete_topics", deletion(*names[1:]))
