"""What a clean restart keeps and what it changes: data, ids, producers and settings stay, the leader epoch grows.

By how much the epoch grows is a broker's own affair: recordings show the new one as `current`.
"""

from typing import Any

from tests.conformance.messages import api
from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic


def _current_epoch(s: Session, topic: Topic) -> int:
    described = s.send("metadata", {"topics": [{"name": topic.name}], "allow_auto_topic_creation": False})
    current = int(described["topics"][0]["partitions"][0]["leader_epoch"])
    s.normaliser.leader_epochs = {current: "current", current + 1: "current + 1"}
    return current


@scenario("fetch", versions=[18], restarts=True)
def stale_epochs(s: Session, version: int) -> None:
    """Offsets 0-2 in epoch 0, offset 3 in the epoch after the restart; asked at every version that knows epochs."""
    topic = s.create("a")
    s.fill(topic, s.batch("0", "1", "2"))
    s.restart((topic, 1))
    current = _current_epoch(s, topic)
    s.fill(topic, s.batch("3"))
    believed = {"stale": 0, "current": current, "future": current + 1}
    for label, epoch in believed.items():
        for chosen in range(9, api("fetch").highest + 1):
            asked = s.fetch(topic, 0, current_leader_epoch=epoch)
            s.ask(f"fetch v{chosen}, {label} epoch", "fetch", asked, version=chosen)
        for chosen in range(4, api("list_offsets").highest + 1):
            wanted: dict[str, Any] = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}
            listing = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [wanted]}]}
            s.ask(f"list offsets v{chosen}, {label} epoch", "list_offsets", listing, version=chosen)
        for chosen in api("offset_for_leader_epoch").versions:
            for asked_label, asked_epoch in believed.items():
                wanted = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": asked_epoch}
                content = {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [wanted]}]}
                step = f"end of {asked_label} epoch v{chosen}, {label} epoch"
                s.ask(step, "offset_for_leader_epoch", content, version=chosen)
    for chosen in range(12, api("fetch").highest + 1):
        for label, epoch in believed.items():
            for offset in (2, 3, 4):
                asked = s.fetch(topic, offset, last_fetched_epoch=epoch)
                s.ask(f"fetch v{chosen} at {offset}, last read in {label} epoch", "fetch", asked, version=chosen)
    for chosen in range(7, api("metadata").highest + 1):
        asked = {"topics": [{"name": topic.name}], "allow_auto_topic_creation": False}
        s.ask(f"metadata v{chosen}", "metadata", asked, version=chosen)
    for time in (s.at(0), s.at(0.5), -1, -2, -3):
        wanted = {"partition_index": 0, "timestamp": time}
        listing = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [wanted]}]}
        label = "T" if time > 0 else str(time)
        s.ask(f"list offsets {label}{'+500' if time == s.at(0.5) else ''}", "list_offsets", listing, version=10)


@scenario("metadata", versions=[13], restarts=True)
def kept_over_a_restart(s: Session, version: int) -> None:
    topic = s.create("a", 2, configs={"retention.ms": "123456789"})
    producer = s.new_producer()

    def sequenced(sequence: int) -> Any:
        return s.batch(f"s{sequence}", producer_id=producer, producer_epoch=0, base_sequence=sequence)

    s.fill(topic, sequenced(0), sequenced(1), s.batch("x", "y"))
    s.send("delete_records", {
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 1}]}], "timeout": 5000,
    })  # fmt: skip
    gone = s.create("gone")
    s.send("delete_topics", {"topics": [{"name": gone.name}], "timeout": 5000})
    s.until(lambda: not s.is_known(gone.name), "deletion")
    s.restart((topic, 2))
    _current_epoch(s, topic)
    both = [{"name": topic.name}, {"name": gone.name}]
    s.ask("topics", "metadata", {"topics": both, "allow_auto_topic_creation": False})
    s.ask("records", "fetch", s.fetch(topic, 1), version=12)
    s.ask("deleted records", "fetch", s.fetch(topic, 0), version=12)
    producers = {"topics": [{"name": topic.name, "partition_indexes": [0]}]}
    s.ask("producers", "describe_producers", producers, version=0)
    s.ask("duplicate", "produce", s.produce(topic, sequenced(1)), version=9)
    s.ask("gap", "produce", s.produce(topic, sequenced(3)), version=9)
    s.ask("next", "produce", s.produce(topic, sequenced(2)), version=9)
    resource = {"resource_type": 2, "resource_name": topic.name, "configuration_keys": ["retention.ms"]}
    s.ask("setting", "describe_configs", {"resources": [resource], "include_synonyms": True}, version=4)
    s.ask("the other partition", "produce", s.produce(topic, s.batch("new"), partition=1), version=9)
