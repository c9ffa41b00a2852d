"""DescribeQuorum: one node keeps the metadata, whatever it keeps them in; and brokers that are to be forgotten."""

from collections.abc import Sequence
from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

METADATA = "__cluster_metadata"


@scenario("describe_quorum")
def describe_quorum(s: Session, version: int) -> None:
    def request(*wanted: tuple[str, Sequence[int]]) -> dict[str, Any]:
        return {
            "topics": [
                {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
                for name, indexes in wanted
            ]
        }

    s.ask("the quorum", "describe_quorum", request((METADATA, [0])), edit=own_ways)
    s.ask("another partition", "describe_quorum", request((METADATA, [1])))
    s.ask("two partitions", "describe_quorum", request((METADATA, [0, 1])))
    s.ask("a partition twice", "describe_quorum", request((METADATA, [0, 0])))
    s.ask("another topic", "describe_quorum", request((s.create("a").name, [0])))
    s.ask("two topics", "describe_quorum", request((METADATA, [0]), (s.topic_name("b"), [0])))
    s.ask("no partitions", "describe_quorum", request((METADATA, [])))
    s.ask("nothing", "describe_quorum", request())


@scenario("unregister_broker")
def unregister_broker(s: Session, version: int) -> None:
    """Not of the one broker that there is: Apache Kafka forgets that as well, and is of no use from then on."""
    s.ask("a broker that nobody knows", "unregister_broker", {"broker_id": 77})
    s.ask("a negative number", "unregister_broker", {"broker_id": -1})


def own_ways(answer: Any) -> Any:
    """Replace what belongs to each kind of metadata store: offsets, epochs, times and where its nodes are reached."""
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            partition["leader_epoch"] = "EPOCH" if partition["leader_epoch"] > 0 else partition["leader_epoch"]
            end = partition["high_watermark"]
            partition["high_watermark"] = "END" if end > 0 else end
            for replica in partition["current_voters"]:
                replica["log_end_offset"] = "END" if replica["log_end_offset"] >= end else replica["log_end_offset"]
                for moment in replica.keys() & {"last_fetch_timestamp", "last_caught_up_timestamp"}:
                    replica[moment] = "TIME" if replica[moment] > 0 else replica[moment]
                if "replica_directory_id" in replica:
                    replica["replica_directory_id"] = "DIRECTORY"
    for node in answer.get("nodes", ()):
        node["listeners"] = "LISTENERS" if node["listeners"] else node["listeners"]
    return answer
