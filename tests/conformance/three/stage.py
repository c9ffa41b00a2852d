"""Plays a script on a cluster: each question at every version of its API, to a broker that the script chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from tests.conformance.messages import api, walk
from tests.conformance.recording import Answers
from tests.conformance.session import Session, Topic, new_tag
from tests.conformance.three.clusters import BROKERS, Nodes
from tests.conformance.wire_client import WireClient

Plain = Any
Edit = Callable[[Plain], Plain]
Script = Callable[["Stage"], None]

FIRST: Final = BROKERS[0]
#: Apache Kafka announces older ones, which it refuses.
VERSIONS: Final = {"produce": range(3, 14)}
COORDINATED_KEYS: Final = {"group": 0, "transaction": 1}

scripts: dict[str, Script] = {}


def script(function: Script) -> Script:
    scripts[function.__name__.replace("_", "-")] = function
    return function


class Stage:
    def __init__(self, name: str, nodes: Nodes) -> None:
        self.nodes = nodes
        self.answers: dict[int, dict[str, Plain]] = {}
        self._topics: list[Topic] = []
        self._clients = {number: client_of(nodes.address(number)) for number in BROKERS}
        self._session = Session.start(name, 0, self._clients[FIRST], new_tag(), lambda: None)

    def close(self) -> None:
        """The topics go too: others use the cluster."""
        names = [topic.name for topic in self._topics]
        self.at(FIRST).send("delete_topics", {"topic_names": names, "timeout": 30_000}, version=5)
        for client in self._clients.values():
            client.close()

    def topic_name(self, label: str) -> str:
        return self._session.topic_name(label)

    def at(self, broker: int, version: int = 0) -> Session:
        """Questions to a broker; answers are kept by their version."""
        kept = self.answers.setdefault(version, {})
        return replace(self._session, client=self._clients[broker], version=version, answers=kept)

    def ask(
        self,
        step: str,
        name: str,
        content: Mapping[str, Plain],
        broker: int = FIRST,
        versions: Sequence[int] = (),
        edit: Edit = lambda answer: answer,
    ) -> None:
        for version in versions or VERSIONS.get(name) or api(name).versions:
            self.at(broker, version).ask(step, name, content, edit=lambda answer: edit(with_sets_sorted(answer)))

    def ask_newest(
        self, step: str, name: str, content: Mapping[str, Plain], edit: Edit = lambda answer: answer
    ) -> None:
        """For what changes something."""
        self.ask(step, name, content, versions=[api(name).highest], edit=edit)

    def create(self, label: str, *replicas: Sequence[int], **configs: str) -> Topic:
        """Returns when every broker knows it, and all of its replicas are in sync."""
        name = self.topic_name(label)
        wanted = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": index, "broker_ids": chosen} for index, chosen in enumerate(replicas)],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        created = self.at(FIRST).send("create_topics", {"topics": [wanted], "timeout": 30_000})["topics"][0]
        assert created["error_code"] == "NONE", created
        topic = Topic(name, created["topic_id"])
        self._topics.append(topic)
        for broker in BROKERS:
            self.await_whole(topic, broker)
        for index, (leader, *_) in enumerate(replicas):
            self.await_served(topic, index, leader)
        return topic

    def partitions(self, topic: Topic, broker: int = FIRST) -> list[Plain]:
        asked = {"topics": [{"name": topic.name}], "allow_auto_topic_creation": False}
        found: list[Plain] = self.at(broker).send("metadata", asked)["topics"][0]["partitions"]
        return found

    def await_whole(self, topic: Topic, broker: int = FIRST) -> None:
        def whole() -> bool:
            found = self.partitions(topic, broker)
            return bool(found) and all(
                each["leader_id"] >= 0 and len(each["isr_nodes"]) == len(each["replica_nodes"]) for each in found
            )

        self._session.until(whole, f"{topic.name} whole at broker {broker}")

    def await_served(self, topic: Topic, index: int, leader: int) -> None:
        wanted = {"name": topic.name, "partitions": [{"partition_index": index, "timestamp": -1}]}

        def served() -> bool:
            answer = self.at(leader).send("list_offsets", {"replica_id": -1, "topics": [wanted]})
            return bool(answer["topics"][0]["partitions"][0]["error_code"] == "NONE")

        self._session.until(served, f"{topic.name}-{index} served by {leader}")

    def until(self, done: Callable[[], bool], what: str) -> None:
        self._session.until(done, what)

    def not_coordinators(self, kind: str, key: str) -> Sequence[int]:
        """Brokers that do not coordinate this key."""
        asked = {"key_type": COORDINATED_KEYS[kind], "coordinator_keys": [key]}
        self._session.await_coordinator(COORDINATED_KEYS[kind], key)
        found = self._session.send("find_coordinator", asked)["coordinators"][0]["node_id"]
        return [number for number in BROKERS if number != found]

    @contextmanager
    def without(self, broker: int) -> Iterator[None]:
        """In a block in which this broker is stopped."""
        self._clients[broker].close()
        self.nodes.stop(broker)
        try:
            yield
        finally:
            self.nodes.start(broker)
            self._clients[broker] = client_of(self.nodes.address(broker))


def with_sets_sorted(answer: Plain) -> Plain:
    for mapping in walk(answer):
        if "isr_nodes" in mapping:
            mapping["isr_nodes"] = sorted(mapping["isr_nodes"])
    return answer


def client_of(address: str) -> WireClient:
    host, port = address.rsplit(":", 1)
    return WireClient(host, int(port))


def play(name: str, nodes: Nodes) -> Mapping[int, Answers]:
    stage = Stage(name, nodes)
    try:
        scripts[name](stage)
        return {version: answers for version, answers in stage.answers.items() if answers}
    finally:
        stage.close()
