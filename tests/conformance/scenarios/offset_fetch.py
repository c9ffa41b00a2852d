"""OffsetFetch for groups to which nobody has committed."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic, as_uuid

Wanted = tuple[Topic, list[int]]


def _asked(version: int, group: str, wanted: list[Wanted] | None, **more: Any) -> dict[str, Any]:
    topics = None if wanted is None else [
        {"name": topic.name, "topic_id": as_uuid(topic.id), "partition_indexes": indexes} for topic, indexes in wanted
    ]  # fmt: skip
    if version >= 8:
        member = {key: more.pop(key) for key in ("member_id", "member_epoch") if key in more}
        return {"groups": [{"group_id": group, "topics": topics, **member}], **more}
    named = None if topics is None else [{key: topic[key] for key in ("name", "partition_indexes")} for topic in topics]
    return {"group_id": group, "topics": named, **more}


def await_groups(s: Session, *names: str) -> None:
    """Apache Kafka tells who coordinates a group shortly before that broker is ready to do it."""
    s.await_coordinator(0)
    asked = {"groups": [{"group_id": name, "topics": None} for name in names]}

    def ready() -> bool:
        return all(group["error_code"] == "NONE" for group in s.send("offset_fetch", asked)["groups"])

    s.until(ready, "a coordinator that serves its groups")


@scenario("offset_fetch")
def offset_fetch_of_unknown_groups(s: Session, version: int) -> None:
    await_groups(s, s.topic_name("group"), "")
    topic, other = s.create("a", 2), s.create("b")
    missing = Topic(s.topic_name("missing"), "00000000-0000-4000-8000-000000000001")
    group = s.topic_name("group")

    def ask(step: str, wanted: list[Wanted] | None, name: str = group, **more: Any) -> None:
        s.ask(step, "offset_fetch", _asked(version, name, wanted, **more), ordered=True)

    ask("a partition", [(topic, [0])])
    ask("several, in the order asked", [(other, [0]), (topic, [1, 0])])
    ask("a partition twice", [(topic, [0, 0])])
    ask("a topic twice", [(topic, [0]), (topic, [1])])
    ask("unknown topic", [(missing, [0]), (topic, [0])])
    ask("unknown partition", [(topic, [0, 7, -1])])
    ask("no topic id", [(Topic("", None), [0])])
    ask("illegal name", [(Topic("a b", topic.id), [0])])
    ask("no partitions", [(topic, [])])
    ask("no topics", [])
    if version >= 2:
        ask("all topics", None)
    ask("group without a name", [(topic, [0])], name="")
    if version >= 7:
        ask("stable offsets", [(topic, [0])], require_stable=True)
        ask("stable offsets of all topics", None, require_stable=True)
    if version >= 9:
        for epoch in (-1, 0, 5):
            ask(f"member epoch {epoch}", [(topic, [0])], member_id="member", member_epoch=epoch)
            ask(f"no member, epoch {epoch}", [(topic, [0])], member_id=None, member_epoch=epoch)
            ask(f"all topics, member epoch {epoch}", None, member_id="member", member_epoch=epoch)


@scenario("offset_fetch", versions=range(8, 11))
def offset_fetch_of_several_groups(s: Session, version: int) -> None:
    await_groups(s, s.topic_name("one"), s.topic_name("two"))
    topic = s.create("a", 2)

    def of(label: str, wanted: list[Wanted] | None) -> Any:
        return _asked(version, s.topic_name(label), wanted)["groups"][0]

    one, two = of("one", [(topic, [0])]), of("two", [(topic, [1, 0])])
    s.ask("two groups", "offset_fetch", {"groups": [two, one]}, ordered=True)
    s.ask("a group twice", "offset_fetch", {"groups": [one, one]}, ordered=True)
    s.ask("all topics of one", "offset_fetch", {"groups": [of("one", None), two]}, ordered=True)
    s.ask("no groups", "offset_fetch", {"groups": []})
