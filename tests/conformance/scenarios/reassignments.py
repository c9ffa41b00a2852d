"""AlterPartitionReassignments and ListPartitionReassignments: one broker has nowhere to move a replica to."""

from collections.abc import Sequence
from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

Replicas = Sequence[int] | None


@scenario("alter_partition_reassignments")
def alter_partition_reassignments(s: Session, version: int) -> None:
    topic = s.create("a", partitions=2)
    other = s.create("b")

    def ask(step: str, *wanted: tuple[str, dict[int, Replicas]], strict: bool = False) -> None:
        topics = [
            {
                "name": name,
                "partitions": [{"partition_index": index, "replicas": chosen} for index, chosen in partitions.items()],
            }
            for name, partitions in wanted
        ]
        request: dict[str, Any] = {"topics": topics, "timeout": 5000}
        if version >= 1:
            request["allow_replication_factor_change"] = not strict
        s.ask(step, "alter_partition_reassignments", request)

    ask("where it is", (topic.name, {0: [1]}))
    ask("two topics", (topic.name, {0: [1], 1: [1]}), (other.name, {0: [1]}))
    ask("without another replication factor", (topic.name, {0: [1]}), strict=True)
    ask("unregistered broker", (topic.name, {0: [7]}))
    ask("one more replica", (topic.name, {0: [1, 2]}))
    ask("a replica twice", (topic.name, {0: [1, 1]}), strict=True)
    ask("negative replica", (topic.name, {0: [-1]}))
    ask("no replicas", (topic.name, {0: []}))
    ask("cancelled", (topic.name, {0: None}))
    ask("one good and one bad", (topic.name, {0: [1], 1: [9]}))
    ask("unknown partition", (topic.name, {0: [1], 9: [1]}))
    ask("negative partition", (topic.name, {-1: [1]}))
    ask("unknown topic", (s.topic_name("missing"), {0: [1]}))
    ask("cancelled for an unknown topic", (s.topic_name("missing"), {0: None}))
    ask("illegal name", ("a b", {0: [1]}))
    ask("no partitions", (topic.name, {}))
    ask("a topic twice", (topic.name, {0: [1]}), (topic.name, {1: [1]}))
    ask("nothing")


@scenario("list_partition_reassignments")
def list_partition_reassignments(s: Session, version: int) -> None:
    topic = s.create("a", partitions=2)

    def ask(step: str, *wanted: tuple[str, Sequence[int]]) -> None:
        topics = [{"name": name, "partition_indexes": indexes} for name, indexes in wanted]
        s.ask(step, "list_partition_reassignments", {"topics": topics, "timeout": 5000})

    ask("one partition", (topic.name, [0]))
    ask("all partitions", (topic.name, [0, 1]))
    ask("unknown partition", (topic.name, [9]))
    ask("unknown topic", (s.topic_name("missing"), [0]))
    ask("no partitions", (topic.name, []))
    ask("nothing")
    s.ask("everything", "list_partition_reassignments", {"topics": None, "timeout": 5000})
