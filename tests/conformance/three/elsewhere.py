"""More questions whose answer depends on who is asked: settings, folders, markers and transactions of other brokers.

Left out of the comparison: where a log directory lies, and how much room there is on its disk; which broker refuses
settings (ours hands changes on to the controller), so that changes of settings of another broker that is registered are
not asked for: Apache Kafka refuses them, here any broker takes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.conformance.session import Topic
from tests.conformance.three.clusters import BROKERS
from tests.conformance.three.stage import FIRST, Stage, script

Plain = Any
FOLLOWER, STRANGER = 2, 3
BROKER, LOGGER = 4, 8
SET, DELETE = 0, 1
NOBODY: Final = 9
#: A producer that has written nothing anywhere.
PRODUCER: Final = 4_000_000
WHO: Final = (("leader", FIRST), ("follower", FOLLOWER), ("stranger", STRANGER))


def mark_at(s: Stage, topic: Topic, broker: int) -> int:
    asked = s.at(broker)
    answer = asked.send("fetch", asked.fetch(topic, 0, current_leader_epoch=-1))
    return int(answer["responses"][0]["partitions"][0]["high_watermark"])


@script
def settings_of_another_broker(s: Stage) -> None:
    keys = ["background.threads"]
    for name in ("1", "2", str(NOBODY), "x", ""):
        for kind, what in ((BROKER, "broker"), (LOGGER, "logger")):
            asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            step = f"{what} {name or 'of all'}"
            s.ask(f"{step}: described", "describe_configs", {"resources": [asked]})
    for name in ("1", str(NOBODY), "x"):
        change = {"name": keys[0], "config_operation": SET, "value": "11"}
        resource = {"resource_type": BROKER, "resource_name": name, "configs": [change]}
        changed = {"resources": [resource], "validate_only": True}
        s.ask(f"broker {name}: changed", "incremental_alter_configs", changed, edit=without_who_refuses)
        older = {"resource_type": BROKER, "resource_name": name, "configs": [{"name": keys[0], "value": "11"}]}
        replaced = {"resources": [older], "validate_only": True}
        s.ask(f"broker {name}: replaced", "alter_configs", replaced, edit=without_who_refuses)


def without_who_refuses(answer: Plain) -> Plain:
    for each in answer["responses"]:
        if each["error_message"]:
            each["error_message"] = re.sub(r"expected \d+", "expected ID", each["error_message"])
    return answer


@script
def folders_of_each_broker(s: Stage) -> None:
    topic = s.create("a", [FIRST, FOLLOWER])
    leader = s.at(FIRST)
    leader.fill(topic, leader.batch("1", "2"), leader.batch("3"))
    s.until(lambda: mark_at(s, topic, FOLLOWER) == 3, "the follower has it all, and knows that")
    for who, broker in WHO:
        asked = {"topics": [{"topic": topic.name, "partitions": [0, 1]}]}
        s.ask(f"{who}: folders", "describe_log_dirs", asked, broker=broker, edit=without_places)
        moved = {"path": "/no/such/folder", "topics": [{"name": topic.name, "partitions": [0, 1]}]}
        s.ask(f"{who}: moves to nowhere", "alter_replica_log_dirs", {"dirs": [moved]}, broker=broker)


def without_places(answer: Plain) -> Plain:
    kept = ("error_code", "topics")
    return {**answer, "results": [{key: found[key] for key in kept} for found in answer["results"]]}


@script
def markers_for_leaders(s: Stage) -> None:
    """Of a producer that has written nothing: only who leads writes them."""
    topic = s.create("a", [FIRST, FOLLOWER])
    for who, broker in (("follower", FOLLOWER), ("stranger", STRANGER)):
        for partition in (0, 1):
            s.ask(f"{who}: partition {partition}", "write_txn_markers", marker(topic, partition), broker=broker)


def marker(topic: Topic, *partitions: int) -> Mapping[str, Plain]:
    of_topic = {"name": topic.name, "partition_indexes": list(partitions)}
    return {"markers": [{
        "producer_id": PRODUCER, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
        "topics": [of_topic],
    }]}  # fmt: skip


@script
def transactions_at_each_broker(s: Stage) -> None:
    """A transaction is listed by its coordinator alone, and others send away who verifies it."""
    own = s.topic_name("transaction")
    topic = s.create("a", [FIRST, FOLLOWER])
    others = s.not_coordinators("transaction", own)
    (coordinator,) = set(BROKERS) - set(others)
    begun = {"transactional_id": own, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}

    def is_begun() -> bool:
        return bool(s.at(coordinator).send("init_producer_id", begun, version=3)["error_code"] == "NONE")

    s.until(is_begun, "the coordinator has the transaction")

    def ours(answer: Plain) -> Plain:
        return {**answer, "transaction_states": states_of(answer, own)}

    for who, broker in (("coordinator", coordinator), ("another", others[0]), ("the third", others[1])):
        s.ask(f"{who}: transactions", "list_transactions", {"state_filters": [], "producer_id_filters": []},
              broker=broker, edit=ours)  # fmt: skip
    wanted = {
        "transactional_id": own, "producer_id": PRODUCER, "producer_epoch": 0, "verify_only": True,
        "topics": [{"name": topic.name, "partitions": [0]}],
    }  # fmt: skip
    for who, broker in (("coordinator", coordinator), ("another", others[0])):
        asked = {"transactions": [wanted]}
        s.ask(f"{who}: verification", "add_partitions_to_txn", asked, broker=broker, versions=(4, 5))


def states_of(answer: Plain, transactional_id: str) -> Sequence[Plain]:
    return [each for each in answer["transaction_states"] if each["transactional_id"] == transactional_id]


@script
def brokers_that_nobody_knows(s: Stage) -> None:
    for broker in BROKERS:
        s.ask(f"at {broker}", "unregister_broker", {"broker_id": NOBODY}, broker=broker)
