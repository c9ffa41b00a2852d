"""ElectLeaders: on one broker there is nobody else to elect."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

PREFERRED, UNCLEAN = 0, 1


@scenario("elect_leaders")
def elect_leaders(s: Session, version: int) -> None:
    topic = s.create("a", partitions=2)
    other = s.create("b")

    def ask(
        step: str,
        *wanted: tuple[str, list[int]],
        kind: int = PREFERRED,
        timeout: int = 5000,
    ) -> None:
        asked = [{"topic": name, "partitions": indexes} for name, indexes in wanted]
        request: dict[str, Any] = {"topic_partitions": asked, "timeout": timeout}
        if version >= 1:
            request["election_type"] = kind
        s.ask(step, "elect_leaders", request)

    def ask_all(step: str, kind: int) -> None:
        request: dict[str, Any] = {"topic_partitions": None, "timeout": 5000}
        if version >= 1:
            request["election_type"] = kind
        answer = s.send("elect_leaders", request, version)
        labels = {topic.name: "a", other.name: "b"}
        found = {each["topic"]: each["partition_result"] for each in answer["replica_election_results"]}
        s.note(step, {label: found.get(name) for name, label in labels.items()})

    ask("one partition", (topic.name, [0]))
    ask("two topics", (topic.name, [0, 1]), (other.name, [0]))
    ask("unknown partition", (topic.name, [0, 9]))
    ask("negative partition", (topic.name, [-1]))
    ask("unknown topic", (s.topic_name("missing"), [0]))
    ask("illegal name", ("a b", [0]))
    ask("no partitions", (topic.name, []))
    ask("nothing")
    ask_all("everything", PREFERRED)
    ask("unclean", (topic.name, [0]), kind=UNCLEAN)
    ask_all("unclean everything", UNCLEAN)
    ask("unknown kind", (topic.name, [0]), kind=7)
    ask("a partition twice", (topic.name, [0, 0]))
    ask("a topic twice", (topic.name, [0]), (topic.name, [1]))
    ask("in no time", (topic.name, [0]), timeout=0)
    ask("in less than no time", (topic.name, [0]), timeout=-1)
