"""The questions: placement, followers that are asked what leaders answer, coordinators that are elsewhere, elections,
moves, and a broker that is down.

Left out of the comparison: which broker is the controller (Apache Kafka names any), who is listed in Metadata while a
broker is down (ours lists it for half a minute longer, so that clients find their way sooner), and the order of an
in-sync set that has grown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.conformance.session import Topic
from tests.conformance.three.clusters import BROKERS
from tests.conformance.three.elsewhere import mark_at
from tests.conformance.three.stage import FIRST, Stage, script, scripts

__all__ = ["scripts"]

Plain = Any
FOLLOWER, STRANGER = 2, 3
PREFERRED, UNCLEAN = 0, 1
NOBODY: Final = 9


def without_controller(answer: Plain) -> Plain:
    return {key: value for key, value in answer.items() if key != "controller_id"}


def topics_only(answer: Plain) -> Plain:
    return {"topics": answer["topics"]}


def listed(topic: Topic) -> Mapping[str, Plain]:
    return {"topics": [{"name": topic.name}], "allow_auto_topic_creation": False}


@script
def metadata_of_three(s: Stage) -> None:
    topic = s.create("a", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    s.ask("a topic", "metadata", listed(topic), edit=without_controller)
    s.ask("a topic, at another broker", "metadata", listed(topic), broker=3, edit=without_controller)
    s.ask("no topic", "metadata", {"topics": [], "allow_auto_topic_creation": False}, edit=topicless)
    s.ask(
        "its partitions", "describe_topic_partitions", {"topics": [{"name": topic.name}], "response_partition_limit": 9}
    )
    s.ask("the cluster", "describe_cluster", {"endpoint_type": 1}, edit=without_controller)


def topicless(answer: Plain) -> Plain:
    return {**without_controller(answer), "topics": []}


@script
def topics_for_three(s: Stage) -> None:
    def ask(step: str, *replicas: Sequence[int], partitions: int = -1, factor: int = -1, first: int = 0) -> None:
        assignments = [{"partition_index": index, "broker_ids": chosen} for index, chosen in enumerate(replicas, first)]
        wanted = {
            "name": s.topic_name("wanted"),
            "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": assignments,
        }
        s.ask(step, "create_topics", {"topics": [wanted], "timeout": 5000, "validate_only": True})

    ask("three copies", partitions=2, factor=3)
    ask("more copies than brokers", partitions=1, factor=4)
    ask("no copies", partitions=1, factor=0)
    ask("as many copies as configured", partitions=1)
    ask("an assignment", [1, 2, 3], [2, 3, 1])
    ask("an unknown broker", [1, NOBODY])
    ask("a broker twice", [1, 1])
    ask("a negative broker", [-1, 1])
    ask("an assignment without brokers", [])
    ask("different numbers of copies", [1, 2], [3])
    ask("not from zero on", [1, 2], first=1)
    ask("an assignment and a number of partitions", [1, 2], partitions=1)
    ask("an assignment and a number of copies", [1, 2], factor=2)


@script
def growth_on_three(s: Stage) -> None:
    topic = s.create("a", [1, 2], [2, 3])

    def ask(step: str, count: int, *replicas: Sequence[int] | None) -> None:
        assignments = [{"broker_ids": chosen} for chosen in replicas] or None
        wanted = {"name": topic.name, "count": count, "assignments": assignments}
        s.ask(step, "create_partitions", {"topics": [wanted], "timeout": 5000, "validate_only": True})

    ask("two more", 4)
    ask("two more, placed", 4, [3, 1], [1, 2])
    ask("too few places", 4, [3, 1])
    ask("too many places", 3, [3, 1], [1, 2])
    ask("fewer copies", 3, [3])
    ask("more copies", 3, [3, 1, 2])
    ask("an unknown broker", 3, [3, NOBODY])
    ask("a broker twice", 3, [3, 3])
    ask("none more", 2)
    ask("fewer", 1)


@script
def what_only_leaders_answer(s: Stage) -> None:
    """Asked of a follower, of a broker that has no copy, and with an epoch that is over or not yet begun."""
    topic = s.create("a", [1, 2])
    leader = s.at(FIRST)
    leader.fill(topic, leader.batch("1", "2"), leader.batch("3"))
    s.until(lambda: mark_at(s, topic, FOLLOWER) == 3, "the follower has it all, and knows that")
    for who, broker in (("leader", FIRST), ("follower", FOLLOWER), ("stranger", STRANGER)):
        if broker != FIRST:
            s.ask(f"{who}: produce", "produce", leader.produce(topic, leader.batch("4"), acks=1), broker=broker)
            s.ask(f"{who}: produce to all", "produce", leader.produce(topic, leader.batch("4"), acks=-1), broker=broker)
            s.ask(f"{who}: delete records", "delete_records", deleted(topic), broker=broker)
        s.ask(f"{who}: fetch", "fetch", leader.fetch(topic, 0, current_leader_epoch=-1), broker=broker)
        for name, epoch in (("this", 0), ("a newer", 1)):
            s.ask(
                f"{who}: fetch, {name} epoch",
                "fetch",
                leader.fetch(topic, 0, current_leader_epoch=epoch),
                broker=broker,
            )
            s.ask(f"{who}: list, {name} epoch", "list_offsets", listing(topic, -1, epoch=epoch), broker=broker)
            s.ask(f"{who}: end of an epoch, {name}", "offset_for_leader_epoch", ending(topic, epoch), broker=broker)
        for what, time in (("latest", -1), ("earliest", -2), ("at a time", s.at(FIRST).at(0))):
            s.ask(f"{who}: list, {what}", "list_offsets", listing(topic, time), broker=broker)
            s.ask(f"{who}: list for debugging, {what}", "list_offsets", listing(topic, time, replica=-2), broker=broker)
        producers = {"topics": [{"name": topic.name, "partition_indexes": [0]}]}
        s.ask(f"{who}: producers", "describe_producers", producers, broker=broker)


def listing(topic: Topic, time: int, replica: int = -1, epoch: int = -1) -> Mapping[str, Plain]:
    wanted = {"partition_index": 0, "timestamp": time, "current_leader_epoch": epoch}
    return {"replica_id": replica, "topics": [{"name": topic.name, "partitions": [wanted]}]}


def ending(topic: Topic, epoch: int, asked: int = 0) -> Mapping[str, Plain]:
    wanted = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": asked}
    return {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [wanted]}]}


def deleted(topic: Topic) -> Mapping[str, Plain]:
    wanted = {"partition_index": 0, "offset": 1}
    return {"topics": [{"name": topic.name, "partitions": [wanted]}], "timeout": 5000}


@script
def what_is_known_after_an_election(s: Stage) -> None:
    """Two records of the first epoch, one of the next: their ends, by epoch, by time and by what a client believes."""
    topic = s.create("a", [3, 1, 2])
    before, after = s.at(STRANGER), s.at(FIRST)
    before.fill(topic, before.batch("1", at=1), before.batch("2", at=2))
    with s.without(STRANGER):
        s.until(lambda: leader_of(s, topic, 0) == FIRST, "the next one leads")
        s.await_served(topic, 0, FIRST)
        after.fill(topic, after.batch("3", at=3))
        for name, epoch in (("no", -1), ("an old", 0), ("this", 1), ("a newer", 2)):
            for asked in (0, 1, 2):
                wanted = ending(topic, epoch, asked)
                s.ask(f"{name} epoch: end of epoch {asked}", "offset_for_leader_epoch", wanted)
            s.ask(f"{name} epoch: latest", "list_offsets", listing(topic, -1, epoch=epoch))
            s.ask(f"{name} epoch: fetch", "fetch", after.fetch(topic, 3, current_leader_epoch=epoch))
        for label, time in (
            ("earliest", -2),
            ("second", after.at(2)),
            ("third", after.at(3)),
            ("after all", after.at(9)),
        ):
            s.ask(label, "list_offsets", listing(topic, time))
    for broker in (1, 2, 3):
        s.await_whole(topic, broker)


@script
def groups_at_each_broker(s: Stage) -> None:
    """A group is listed by its coordinator alone."""
    group = s.topic_name("group")
    topic = s.create("a", [1, 2, 3])
    others = s.not_coordinators("group", group)
    (coordinator,) = {1, 2, 3} - set(others)
    offsets = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}]
    commit = {
        "group_id": group, "generation_id_or_member_epoch": -1, "member_id": "",
        "topics": [{"name": topic.name, "partitions": offsets}],
    }  # fmt: skip

    def committed() -> bool:
        answer = s.at(coordinator).send("offset_commit", commit, version=8)
        return bool(answer["topics"][0]["partitions"][0]["error_code"] == "NONE")

    s.until(committed, "the coordinator has the group")

    def only_ours(answer: Plain) -> Plain:
        return {**answer, "groups": [each for each in answer["groups"] if each["group_id"] == group]}

    for who, broker in (("coordinator", coordinator), ("another", others[0]), ("the third", others[1])):
        s.ask(f"{who}: groups", "list_groups", {}, broker=broker, edit=only_ours)
        s.ask(f"{who}: description", "describe_groups", {"groups": [group]}, broker=broker)
        s.ask(
            f"{who}: empty ones",
            "list_groups",
            {"states_filter": ["Empty"]},
            broker=broker,
            versions=[4, 5],
            edit=only_ours,
        )
        s.ask(
            f"{who}: stable ones",
            "list_groups",
            {"states_filter": ["Stable"]},
            broker=broker,
            versions=[4, 5],
            edit=only_ours,
        )
    s.at(coordinator).send("delete_groups", {"groups_names": [group]}, version=2)


@script
def groups_that_are_coordinated_elsewhere(s: Stage) -> None:
    group = s.topic_name("group")
    topic = s.create("a", [1])
    other = s.not_coordinators("group", group)[0]
    member = {"group_id": group, "member_id": "m", "generation_id": 1}

    def ask(step: str, name: str, content: Mapping[str, Plain], versions: Sequence[int] = ()) -> None:
        s.ask(step, name, content, broker=other, versions=versions)

    protocols = [{"name": "range", "metadata": b""}]
    joining = {
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    ask("join", "join_group", {"group_id": group, "member_id": "", **joining})
    ask("sync", "sync_group", {**member, "protocol_type": "consumer", "protocol_name": "range", "assignments": []})
    ask("heartbeat", "heartbeat", member)
    ask("leave", "leave_group", {"group_id": group, "member_id": "m", "members": [{"member_id": "m"}]})
    offsets = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}]
    of_topic = {"name": topic.name, "topic_id": topic_uuid(topic), "partitions": offsets}
    ask("commit", "offset_commit", {
        "group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [of_topic],
    })  # fmt: skip
    ask("committed", "offset_fetch", {
        "group_id": group,
        "topics": [{"name": topic.name, "partition_indexes": [0]}],
        "groups": [{"group_id": group, "member_epoch": -1, "topics": [
            {"name": topic.name, "topic_id": topic_uuid(topic), "partition_indexes": [0]}
        ]}],
    })  # fmt: skip
    ask("describe", "describe_groups", {"groups": [group]})
    ask("delete", "delete_groups", {"groups_names": [group]})
    ask("delete offsets", "offset_delete", {
        "group_id": group, "topics": [{"name": topic.name, "partitions": [{"partition_index": 0}]}],
    })  # fmt: skip
    ask("newer protocol: heartbeat", "consumer_group_heartbeat", {
        "group_id": group, "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 0, "rebalance_timeout": 10_000,
        "subscribed_topic_names": [topic.name], "topic_partitions": [],
    })  # fmt: skip
    ask("newer protocol: describe", "consumer_group_describe", {"group_ids": [group]})


@script
def transactions_that_are_coordinated_elsewhere(s: Stage) -> None:
    own = s.topic_name("transaction")
    topic = s.create("a", [1])
    other = s.not_coordinators("transaction", own)[0]
    producer = {"transactional_id": own, "producer_id": 1, "producer_epoch": 0}

    def ask(step: str, name: str, content: Mapping[str, Plain], versions: Sequence[int] = ()) -> None:
        s.ask(step, name, content, broker=other, versions=versions)

    ask(
        "begin",
        "init_producer_id",
        {"transactional_id": own, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
    )
    ask("partitions", "add_partitions_to_txn", {
        "v3_and_below_transactional_id": own, "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": topic.name, "partitions": [0]}],
    }, versions=range(4))  # fmt: skip
    ask("offsets", "add_offsets_to_txn", {**producer, "group_id": "group"})
    ask("end", "end_txn", {**producer, "committed": True})
    ask("describe", "describe_transactions", {"transactional_ids": [own]})


@script
def preferred_leaders(s: Stage) -> None:
    topic = s.create("a", [1, 2, 3], [2, 3, 1])

    def ask(step: str, *partitions: int, kind: int = PREFERRED) -> None:
        wanted = [{"topic": topic.name, "partitions": list(partitions)}]
        s.ask(
            step, "elect_leaders", {"election_type": kind, "topic_partitions": wanted, "timeout": 5000}, versions=[1, 2]
        )

    ask("they lead", 0, 1)
    ask("unclean, and a leader is there", 0, kind=UNCLEAN)


@script
def replicas_that_move(s: Stage) -> None:
    topic = s.create("a", [1, 2], [2, 3])

    def ask(step: str, partitions: Mapping[int, Sequence[int] | None], strict: bool = False) -> None:
        chosen = [{"partition_index": index, "replicas": replicas} for index, replicas in partitions.items()]
        s.ask_newest(step, "alter_partition_reassignments", {
            "topics": [{"name": topic.name, "partitions": chosen}], "timeout": 5000,
            "allow_replication_factor_change": not strict,
        })  # fmt: skip

    def settled(*wanted: Sequence[int]) -> bool:
        found = {each["partition_index"]: each for each in s.partitions(topic)}
        return all(found[index]["replica_nodes"] == list(chosen) for index, chosen in enumerate(wanted)) and all(
            len(each["isr_nodes"]) == len(each["replica_nodes"]) for each in found.values()
        )

    ask("nothing to cancel", {0: None})
    ask("an unknown broker", {0: [1, NOBODY]})
    ask("a broker twice", {0: [1, 1]})
    ask("nobody", {0: []})
    ask("another number of copies where that is not allowed", {0: [1, 2, 3]}, strict=True)
    ask("where they are", {0: [1, 2]})
    ask("one copy fewer and one more", {0: [1], 1: [2, 3, 1]})
    s.until(lambda: settled([1], [2, 3, 1]), "the first move")
    s.ask("moved", "describe_topic_partitions", {"topics": [{"name": topic.name}], "response_partition_limit": 9})
    ask("away from the leader", {0: [3, 2]})
    s.until(lambda: settled([3, 2], [2, 3, 1]), "the second move")
    s.ask("another leader", "metadata", listed(topic), edit=topics_only)
    s.ask(
        "nothing moves any more",
        "list_partition_reassignments",
        {"topics": [{"name": topic.name, "partition_indexes": [0, 1]}], "timeout": 5000},
    )


@script
def replicas_on_their_way(s: Stage) -> None:
    """A throttle holds the new replica behind its first fetch, which does not bring all; in the end the move is taken
    back."""
    topic = s.create("a", [1, 2], [2, 1])
    leader = s.at(FIRST)
    leader.fill(topic, *(leader.batch("x" * 900_000) for _ in range(4)))
    throttle(s, topic, "1")

    def ask(step: str, replicas: Sequence[int] | None) -> None:
        chosen = [{"partition_index": 0, "replicas": replicas}]
        wanted = {"topics": [{"name": topic.name, "partitions": chosen}], "timeout": 5000}
        s.ask_newest(step, "alter_partition_reassignments", wanted)

    def look(step: str) -> None:
        of_topic = {"name": topic.name, "partition_indexes": [0, 1]}
        s.ask(f"{step}: moves", "list_partition_reassignments", {"topics": [of_topic], "timeout": 5000})
        s.ask(f"{step}: metadata", "metadata", listed(topic), edit=topics_only)
        asked = {"topics": [{"name": topic.name}], "response_partition_limit": 9}
        s.ask(f"{step}: partitions", "describe_topic_partitions", asked)

    def replicas() -> Sequence[int]:
        found: Sequence[int] = next(each for each in s.partitions(topic) if each["partition_index"] == 0)[
            "replica_nodes"
        ]
        return found

    try:
        ask("begun", [3, 2])
        s.until(lambda: len(replicas()) == 3, "the move has begun")
        look("under way")
        ask("another target", [3, 1])
        s.until(lambda: list(replicas()) == [3, 1, 2], "the move has another target")
        look("under way to another target")
        ask("cancelled", None)
        s.until(lambda: list(replicas()) == [1, 2], "the move is taken back")
        look("cancelled")
        ask("cancelled again", None)
    finally:
        throttle(s, topic, None)


def throttle(s: Stage, topic: Topic, rate: str | None) -> None:
    """None takes it away."""
    operation = 1 if rate is None else 0

    def resource(kind: int, name: str, configs: Mapping[str, str | None]) -> Plain:
        changed = [{"name": key, "config_operation": operation, "value": value} for key, value in configs.items()]
        return {"resource_type": kind, "resource_name": name, "configs": changed}

    every = None if rate is None else "*"
    sides = ("leader", "follower")
    of_topic = resource(2, topic.name, {f"{side}.replication.throttled.replicas": every for side in sides})
    rates = {f"{side}.replication.throttled.rate": rate for side in sides}
    for broker in BROKERS:
        changes = [resource(4, str(broker), rates), *([of_topic] if broker == FIRST else [])]
        answer = s.at(broker).send("incremental_alter_configs", {"resources": changes})
        assert all(each["error_code"] == "NONE" for each in answer["responses"]), answer


@script
def one_broker_is_down(s: Stage) -> None:
    whole = s.create("whole", [1, 2, 3], [3, 1, 2], min_insync_replicas="2")
    strict = s.create("strict", [1, 2, 3], min_insync_replicas="3")
    alone = s.create("alone", [3])

    def missed() -> bool:
        others_lead = all(3 not in each["isr_nodes"] and each["leader_id"] != 3 for each in s.partitions(whole))
        return others_lead and all(each["leader_id"] == -1 for each in s.partitions(alone))

    with s.without(3):
        s.until(missed, "broker 3 is missed")
        for label, topic in (("whole", whole), ("strict", strict), ("alone", alone)):
            s.ask(f"{label}: metadata", "metadata", listed(topic), edit=topics_only)
            asked = {"topics": [{"name": topic.name}], "response_partition_limit": 9}
            s.ask(f"{label}: partitions", "describe_topic_partitions", asked)
        s.ask("the cluster", "describe_cluster", {"endpoint_type": 1}, edit=without_controller)
        every = {"endpoint_type": 1, "include_fenced_brokers": True}
        s.ask("the cluster, with those that are down", "describe_cluster", every, versions=[2], edit=without_controller)
        ask_what_is_written(s, strict, alone)
        for label, topic, index in (("whole", whole, 1), ("alone", alone, 0)):
            for kind in (PREFERRED, UNCLEAN):
                wanted = {**electing(topic, index), "election_type": kind}
                s.ask(f"{label}: election of kind {kind}", "elect_leaders", wanted, versions=[1, 2])
        ask_what_is_created(s, whole, alone)
    for topic in (whole, strict, alone):
        for broker in (1, 2, 3):
            s.await_whole(topic, broker)
    s.ask("back: metadata", "metadata", listed(strict), edit=topics_only)
    s.ask_newest("back: elected again", "elect_leaders", {**electing(whole, 1), "election_type": PREFERRED})
    s.until(lambda: leader_of(s, whole, 1) == 3, "broker 3 leads again, as broker 1 knows")
    s.ask("back: led again", "metadata", listed(whole), edit=topics_only)


def leader_of(s: Stage, topic: Topic, index: int) -> int:
    return next(int(each["leader_id"]) for each in s.partitions(topic) if each["partition_index"] == index)


def electing(topic: Topic, index: int) -> Mapping[str, Plain]:
    return {"topic_partitions": [{"topic": topic.name, "partitions": [index]}], "timeout": 5000}


def ask_what_is_written(s: Stage, strict: Topic, alone: Topic) -> None:
    sent = s.at(FIRST)
    s.ask("too few in sync", "produce", sent.produce(strict, sent.batch("1"), acks=-1))
    s.ask("too few in sync for all only", "produce", sent.produce(strict, sent.batch("1"), acks=1))
    s.ask("to nobody", "produce", sent.produce(alone, sent.batch("1"), acks=1))
    s.ask("from nobody", "fetch", sent.fetch(alone, 0, current_leader_epoch=-1))
    s.ask("ends of nobody", "list_offsets", listing(alone, -1))


def ask_what_is_created(s: Stage, whole: Topic, alone: Topic) -> None:
    def create(step: str, *replicas: int, factor: int = -1) -> None:
        wanted = {
            "name": s.topic_name("wanted"),
            "num_partitions": -1 if replicas else 1,
            "replication_factor": factor,
            "assignments": [{"partition_index": 0, "broker_ids": replicas}] if replicas else [],
        }
        s.ask(f"creation: {step}", "create_topics", {"topics": [wanted], "timeout": 5000, "validate_only": True})

    def grow(step: str, topic: Topic, count: int, *replicas: int) -> None:
        assignments = [{"broker_ids": replicas}] if replicas else None
        wanted = {"name": topic.name, "count": count, "assignments": assignments}
        s.ask(f"growth: {step}", "create_partitions", {"topics": [wanted], "timeout": 5000, "validate_only": True})

    create("three copies", factor=3)
    create("two copies", factor=2)
    create("one of them on it", 3, 1)
    create("only on it", 3)
    grow("as before", whole, 3)
    grow("on it", alone, 2, 3)


def topic_uuid(topic: Topic) -> Plain:
    from tests.conformance.session import as_uuid

    return as_uuid(topic.id)
