"""Fetch sessions (from version 7): a full fetch opens one, later fetches name only what changed."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic

VERSIONS = range(7, 19)


def _wanted(s: Session, *wanted: tuple[Topic, int]) -> list[Any]:
    return [s.fetch(topic, offset)["topics"][0] for topic, offset in wanted]


def _incremental(s: Session, session_id: int, epoch: int, *wanted: tuple[Topic, int], **more: Any) -> dict[str, Any]:
    base = dict(s.fetch(Topic("", None), 0))
    return {**base, "topics": _wanted(s, *wanted), "session_id": session_id, "session_epoch": epoch, **more}


@scenario("fetch", versions=VERSIONS)
def fetch_session(s: Session, version: int) -> None:
    a, b, c = s.create("a"), s.create("b"), s.create("c")
    s.fill(a, s.batch("a0"))
    opened = s.ask("opens", "fetch", _incremental(s, 0, 0, (a, 0), (b, 0)))
    session = opened["session_id"]
    s.ask("same offsets again", "fetch", _incremental(s, session, 1))
    s.ask("a advances", "fetch", _incremental(s, session, 2, (a, 1)))
    s.ask("nothing new", "fetch", _incremental(s, session, 3))
    s.fill(b, s.batch("b0"))
    s.ask("b got a record", "fetch", _incremental(s, session, 4))
    s.ask("b advances, c joins", "fetch", _incremental(s, session, 5, (b, 1), (c, 0)))
    s.fill(c, s.batch("c0"))
    s.ask("c got a record", "fetch", _incremental(s, session, 6))
    forget = {"topic": c.name, "topic_id": s.fetch(c, 0)["topics"][0]["topic_id"], "partitions": [0]}
    s.ask("c is forgotten", "fetch", _incremental(s, session, 7, forgotten_topics_data=[forget]))
    s.ask(
        "an unknown partition is forgotten",
        "fetch",
        _incremental(s, session, 8, forgotten_topics_data=[{**forget, "partitions": [9]}]),
    )
    s.fill(c, s.batch("c1"))
    s.ask("c stays silent", "fetch", _incremental(s, session, 9))
    s.ask("out of range", "fetch", _incremental(s, session, 10, (a, 99)))
    s.ask("error is repeated", "fetch", _incremental(s, session, 11))
    s.ask("back in range", "fetch", _incremental(s, session, 12, (a, 0)))
    s.ask("closes with a fetch", "fetch", _incremental(s, session, -1, (a, 0)))
    s.ask("closed session", "fetch", _incremental(s, session, 13))


@scenario("fetch", versions=VERSIONS)
def fetch_session_errors(s: Session, version: int) -> None:
    a = s.create("a")
    s.fill(a, s.batch("a0"))
    s.ask("unknown session", "fetch", _incremental(s, 1234567, 1, (a, 0)))
    s.ask("unknown session is closed", "fetch", _incremental(s, 1234567, -1, (a, 0)))
    s.ask("unknown session, full", "fetch", _incremental(s, 1234567, 0, (a, 0)))
    s.ask("no session, epoch 1", "fetch", _incremental(s, 0, 1, (a, 0)))
    s.ask("no session, epoch -1", "fetch", _incremental(s, 0, -1, (a, 0)))
    s.ask("no session, epoch -2", "fetch", _incremental(s, 0, -2, (a, 0)))
    s.ask("negative session", "fetch", _incremental(s, -5, 1, (a, 0)))
    session = s.ask("opens", "fetch", _incremental(s, 0, 0, (a, 0)))["session_id"]
    s.ask("epoch skipped", "fetch", _incremental(s, session, 2))
    s.ask("epoch 1", "fetch", _incremental(s, session, 1))
    s.ask("epoch repeated", "fetch", _incremental(s, session, 1))
    s.ask("epoch 2", "fetch", _incremental(s, session, 2))
    s.ask("epoch -2", "fetch", _incremental(s, session, -2))
    s.ask("full fetch replaces it", "fetch", _incremental(s, session, 0, (a, 0)))
    s.ask("replaced session", "fetch", _incremental(s, session, 3))
    s.ask("a session of nothing", "fetch", _incremental(s, 0, 0))


@scenario("fetch", versions=VERSIONS)
def fetch_session_and_unknown_topics(s: Session, version: int) -> None:
    a = s.create("a")
    s.fill(a, s.batch("a0"))
    missing = Topic(s.topic_name("missing"), "12345678-1234-4234-8234-123456789abc")
    session = s.ask("opens", "fetch", _incremental(s, 0, 0, (a, 1), (missing, 0)))["session_id"]
    s.ask("goes on", "fetch", _incremental(s, session, 1))
    s.ask("asks for it again", "fetch", _incremental(s, session, 2, (missing, 5)))
    s.send("delete_topics", {"topics": [{"name": a.name}], "timeout": 5000})
    s.until(lambda: not s.is_known(a.name), "deletion")
    s.ask("after a was deleted", "fetch", _incremental(s, session, 3))
    again = s.create("a")
    s.fill(again, s.batch("second life"))
    s.ask("after a was created anew", "fetch", _incremental(s, session, 4))
    s.ask("new incarnation asked for", "fetch", _incremental(s, session, 5, (again, 0)))
