"""Replicas move between three brokers, and leaders go back to the first of them."""

from __future__ import annotations

import json

from tests.cli.kafka_tools.scenario import Step, scenario

# More than a throttle of a kilobyte a second lets through while the commands run: a megabyte goes before it acts, and
# another one whenever its window of ten seconds has passed.
LINES = "".join(f"{number:05}" + "x" * 4995 + "\n" for number in range(8000))


def plan(*moves: tuple[str, int, list[int]], **more: object) -> str:
    entries = [{"topic": topic, "partition": partition, "replicas": replicas} for topic, partition, replicas in moves]
    return json.dumps({"version": 1, "partitions": entries, **more})


def reassign(arguments: str, *, servers: bool = True) -> Step:
    return Step("kafka-reassign-partitions", arguments, servers=servers)


def topics(arguments: str) -> Step:
    return Step("kafka-topics", arguments)


FILES = {
    "topics.json": '{"version":1,"topics":[{"topic":"test"}]}',
    "topics-twice.json": '{"version":1,"topics":[{"topic":"test"},{"topic":"test"}]}',
    "topics-unknown.json": '{"version":1,"topics":[{"topic":"nope"}]}',
    "plan.json": plan(("test", 0, [3, 2]), ("solo", 0, [2, 1])),
    "back.json": plan(("test", 0, [1, 2])),
    "slow.json": plan(("slow", 0, [3, 2])),
    "grow.json": plan(("slow", 0, [1, 2, 3])),
    "unknown-broker.json": plan(("test", 0, [9, 2])),
    "unknown-topic.json": plan(("nope", 0, [1, 2])),
    "unknown-partition.json": plan(("test", 7, [1, 2])),
    "broker-twice.json": plan(("test", 0, [1, 1])),
    "partition-twice.json": plan(("test", 0, [1, 2]), ("test", 0, [2, 1])),
    "nobody.json": plan(("test", 0, [])),
    "empty.json": plan(),
    "version.json": plan(version=2),
    "folders.json": '{"partitions":[{"topic":"test","partition":0,"replicas":[1,2],"log_dirs":["any"]}]}',
    "field.json": '{"partitions":[{"topic":"test","replicas":[1,2]}]}',
    "text.json": "nonsense",
}
REFUSED = (
    "unknown-broker", "unknown-topic", "unknown-partition", "broker-twice", "partition-twice", "nobody", "empty",
    "version", "folders", "field", "missing",
)  # fmt: skip

scenario(
    "moves",
    topics("--create --topic test --replica-assignment 1:2,2:3,3:1"),
    topics("--create --topic solo --replica-assignment 1"),
    topics("--create --topic slow --replica-assignment 1:2"),
    Step("kafka-console-producer", "--topic slow", stdin=LINES),
    reassign("--list"),
    reassign("--generate --topics-to-move-json-file {files}/topics.json --broker-list 1"),
    reassign("--generate --topics-to-move-json-file {files}/topics.json --broker-list 1,9"),
    reassign("--generate --topics-to-move-json-file {files}/topics.json --broker-list 1,1"),
    reassign("--generate --topics-to-move-json-file {files}/topics.json --broker-list a"),
    reassign("--generate --topics-to-move-json-file {files}/topics-twice.json --broker-list 1,2"),
    reassign("--generate --topics-to-move-json-file {files}/topics-unknown.json --broker-list 1,2"),
    reassign("--generate --topics-to-move-json-file {files}/text.json --broker-list 1,2"),
    reassign("--generate --topics-to-move-json-file {files}/topics.json"),
    *(reassign(f"--execute --reassignment-json-file {{files}}/{name}.json") for name in REFUSED),
    reassign("--execute"),
    reassign("--execute --reassignment-json-file {files}/plan.json --throttle x"),
    reassign("--list", servers=False),
    reassign("--list --throttle 5"),
    reassign("--list --verify"),
    reassign(""),
    # A move that takes longer than the commands about it.
    reassign("--execute --reassignment-json-file {files}/slow.json --throttle 1000"),
    reassign("--list"),
    reassign("--verify --reassignment-json-file {files}/slow.json"),
    reassign("--execute --reassignment-json-file {files}/slow.json"),
    reassign("--execute --reassignment-json-file {files}/slow.json --additional --throttle 2000"),
    topics("--describe --topic slow"),
    reassign("--cancel --reassignment-json-file {files}/slow.json"),
    reassign("--list"),
    reassign("--cancel --reassignment-json-file {files}/slow.json --preserve-throttles"),
    reassign("--execute --reassignment-json-file {files}/grow.json --disallow-replication-factor-change"),
    reassign("--verify --reassignment-json-file {files}/unknown-broker.json --preserve-throttles"),
    reassign("--verify --reassignment-json-file {files}/unknown-topic.json --preserve-throttles"),
    reassign("--execute --reassignment-json-file {files}/plan.json"),
    files=FILES,
    brokers=3,
)
