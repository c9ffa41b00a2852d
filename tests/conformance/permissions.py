"""The table of who may ask what: for each API what is asked of the authorizer, as a ladder of grants.

A guest without any right sends the request; then it is given one right after the other, and sends the request again
after each. What the answers look like is recorded from Apache Kafka (`scenarios/authorization.py` plays the ladders).
Short names in requests and grants: topics `t` (exists), `u` (exists, never described to the guest), `m` (missing),
group `g`, transactional id `x`, the cluster `*`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.types.acls import Operation, Resource
from tests.conformance.session import Session, Topic, as_uuid
from tests.conformance.transactors import Transactor

Fields = dict[str, Any]


class Grant(NamedTuple):
    resource: Resource
    operation: Operation
    name: str


class Scene(NamedTuple):
    """What the requests of a row are about."""

    s: Session
    t: Topic
    u: Topic

    def name(self, short: str) -> str:
        return self.s.topic_name(short)

    @property
    def g(self) -> str:
        return self.name("g")

    @property
    def x(self) -> str:
        return self.name("x")


@dataclass(frozen=True, slots=True)
class Row:
    api: str
    content: Callable[[Scene], Fields]
    ladder: Sequence[Grant]
    about: str = ""
    versions: range | None = None
    only_own: bool = False
    prepare: Callable[[Scene], None] = lambda scene: None


def topic(operation: Operation, name: str = "t") -> Grant:
    return Grant(Resource.TOPIC, operation, name)


def group(operation: Operation) -> Grant:
    return Grant(Resource.GROUP, operation, "g")


def transaction(operation: Operation) -> Grant:
    return Grant(Resource.TRANSACTIONAL_ID, operation, "x")


def cluster(operation: Operation) -> Grant:
    return Grant(Resource.CLUSTER, operation, "*")


O = Operation  # noqa: E741 (the table is read by columns)


def of_both(scene: Scene, key: str, **more: Any) -> list[Fields]:
    return [{key: each.name, **more} for each in (scene.t, scene.u)]


def with_ids(scene: Scene, **more: Any) -> list[Fields]:
    return [{"name": each.name, "topic_id": as_uuid(each.id), **more} for each in (scene.t, scene.u)]


def produce(scene: Scene, **more: Any) -> Fields:
    request = dict(scene.s.produce(scene.t, scene.s.batch("a")))
    other = dict(scene.s.produce(scene.u, scene.s.batch("b")))
    return {**request, "topic_data": [*request["topic_data"], *other["topic_data"]], **more}


def fetch(scene: Scene) -> Fields:
    request, other = dict(scene.s.fetch(scene.t, 0)), dict(scene.s.fetch(scene.u, 0))
    return {**request, "topics": [*request["topics"], *other["topics"]]}


def follow(scene: Scene) -> Fields:
    """As a broker that has no replica of either."""
    return {**fetch(scene), "replica_id": 2, "replica_state": {"replica_id": 2, "replica_epoch": -1}}


def commit(scene: Scene) -> Fields:
    parts = [{"partition_index": 0, "committed_offset": 1}]
    topics = with_ids(scene, partitions=parts)
    return {"group_id": scene.g, "generation_id_or_member_epoch": -1, "topics": topics}


def commit_in_transaction(scene: Scene) -> Fields:
    topics = of_both(scene, "name", partitions=[{"partition_index": 0, "committed_offset": 1}])
    producer = {"transactional_id": scene.x, "producer_id": 1, "producer_epoch": 0}
    return {"group_id": scene.g, "generation_id": -1, "topics": topics, **producer}


def offsets_are_committed(scene: Scene) -> None:
    scene.s.await_coordinator(0)

    def committed() -> bool:
        answer = scene.s.send("offset_commit", commit(scene))
        return all(p["error_code"] == "NONE" for topic in answer["topics"] for p in topic["partitions"])

    scene.s.until(committed, "a committed offset")


def transaction_is_known(scene: Scene) -> None:
    scene.s.await_coordinator(1, scene.x)

    def given() -> bool:
        answer = scene.s.send("init_producer_id", {"transactional_id": scene.x, "transaction_timeout": 60_000})
        return bool(answer["error_code"] == "NONE")

    scene.s.until(given, "a transactional producer")


def transaction_is_open(scene: Scene) -> None:
    """With both topics in it."""
    transactor = Transactor(scene.s, "x").begin()
    for topic in (scene.t, scene.u):
        transactor.write(topic, "a")


def member_owns_both(scene: Scene) -> None:
    groups_are_served(scene)
    member = {"group_id": scene.g, "member_id": "A" * 22, "rebalance_timeout": 300_000}
    wanted = {"subscribed_topic_names": [scene.t.name, scene.u.name], "topic_partitions": []}
    answer = scene.s.send("consumer_group_heartbeat", {**member, "member_epoch": 0, **wanted})
    assert answer["error_code"] == "NONE", answer

    def owns_both() -> bool:
        answer = scene.s.send("consumer_group_describe", {"group_ids": [scene.g]})
        (only,) = answer["groups"][0]["members"]
        return len(only["target_assignment"]["topic_partitions"]) == 2

    scene.s.until(owns_both, "an assignment of both topics")


def groups_are_served(scene: Scene) -> None:
    """Those of this group too: the coordinators of others may be up before its own has loaded."""
    offsets_are_committed(scene)
    scene.s.send("delete_groups", {"groups_names": [scene.g]})


def transactions_are_served(scene: Scene) -> None:
    scene.s.await_coordinator(1, scene.x)
    scene.s.new_producer()


def both_are_served(scene: Scene) -> None:
    transactions_are_served(scene)
    groups_are_served(scene)


def configs_of(scene: Scene, **more: Any) -> list[Fields]:
    return [
        {"resource_type": 2, "resource_name": scene.t.name, **more},
        {"resource_type": 2, "resource_name": scene.u.name, **more},
        {"resource_type": 4, "resource_name": "1", **more},
    ]


def altered_configs(scene: Scene, **more: Any) -> Fields:
    def change(key: str) -> list[Fields]:
        return [{"name": key, "value": "1000000", **more}]

    resources = [
        {"resource_type": 2, "resource_name": scene.t.name, "configs": change("retention.ms")},
        {"resource_type": 4, "resource_name": "1", "configs": change("log.cleaner.backoff.ms")},
    ]
    return {"resources": resources, "validate_only": True}


def added_to_transaction(scene: Scene) -> Fields:
    topics = of_both(scene, "name", partitions=[0])
    one = {"transactional_id": scene.x, "producer_id": 1, "producer_epoch": 0, "verify_only": False, "topics": topics}
    return {
        "v3_and_below_transactional_id": scene.x, "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": topics, "transactions": [one],
    }  # fmt: skip


def markers(scene: Scene) -> Fields:
    nowhere = [{"name": scene.name("m"), "partition_indexes": [0]}]
    marker = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "topics": nowhere}
    return {"markers": [marker]}


def rule(scene: Scene) -> Fields:
    return {
        "resource_type": 2, "resource_name": scene.name("m"), "resource_pattern_type": 3, "principal": "User:nobody",
        "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip


def rules_wanted(scene: Scene) -> Fields:
    return {
        "resource_type_filter": 2, "resource_name_filter": scene.name("m"), "pattern_type_filter": 3,
        "principal_filter": "User:somebody", "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip


def created(scene: Scene) -> Fields:
    new = {"name": scene.name("m"), "num_partitions": 1, "replication_factor": 1}
    return {"topics": [new], "validate_only": True, "timeout": 5000}


def named(scene: Scene, **more: Any) -> Fields:
    topics = [{"name": each} for each in (scene.t.name, scene.u.name, scene.name("m"))]
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    return {"topics": topics, "allow_auto_topic_creation": False, **asked, **more}


TABLE: tuple[Row, ...] = (
    Row("produce", produce, [topic(O.WRITE)], versions=range(3, 14)),
    Row("produce", lambda c: produce(c, transactional_id=c.x), [transaction(O.DESCRIBE)],
        "with-the-name-of-a-transaction", range(3, 14)),
    Row("fetch", fetch, [topic(O.DESCRIBE), topic(O.READ)]),
    Row("fetch", follow, [topic(O.READ), cluster(O.CLUSTER_ACTION)], "as-a-follower"),
    Row("list_offsets",
        lambda c: {"replica_id": -1,
                   "topics": of_both(c, "name", partitions=[{"partition_index": 0, "timestamp": -1}])},
        [topic(O.DESCRIBE)]),
    Row("metadata", named, [topic(O.DESCRIBE), topic(O.WRITE), topic(O.DESCRIBE, "m"), cluster(O.DESCRIBE)],
        versions=range(4, 14)),
    Row("metadata", lambda c: named(c, allow_auto_topic_creation=True),
        [topic(O.DESCRIBE, "m")], "with-creation", range(4, 14)),
    Row("metadata", lambda c: named(c, topics=None), [topic(O.READ)], "of-all", range(1, 14), only_own=True),
    Row("metadata", lambda c: {"topics": []}, [topic(O.READ)], "of-all-the-old-way", range(1), only_own=True),
    Row("metadata", lambda c: named(c, topics=[{"name": None, "topic_id": as_uuid(c.t.id)}]), [topic(O.DESCRIBE)],
        "by-id", range(12, 14)),
    Row("describe_topic_partitions", lambda c: {"topics": named(c)["topics"]}, [topic(O.DESCRIBE), topic(O.ALTER)]),
    Row("describe_topic_partitions", lambda c: {"topics": []}, [topic(O.READ)], "of-all", only_own=True),
    Row("offset_commit", commit, [group(O.DESCRIBE), group(O.READ), topic(O.READ)], prepare=groups_are_served),
    Row("offset_fetch",
        lambda c: {
            "group_id": c.g, "topics": of_both(c, "name", partition_indexes=[0]),
            "groups": [{"group_id": c.g, "topics": with_ids(c, partition_indexes=[0])}],
        },
        [group(O.DESCRIBE), topic(O.DESCRIBE)], prepare=offsets_are_committed),
    Row("offset_fetch",
        lambda c: {"group_id": c.g, "topics": None, "groups": [{"group_id": c.g, "topics": None}]},
        [group(O.DESCRIBE), topic(O.DESCRIBE)], "of-all", range(2, 10), prepare=offsets_are_committed),
    Row("find_coordinator", lambda c: {"key": c.g, "key_type": 0, "coordinator_keys": [c.g]}, [group(O.DESCRIBE)],
        prepare=groups_are_served),
    Row("find_coordinator", lambda c: {"key": c.x, "key_type": 1, "coordinator_keys": [c.x]},
        [transaction(O.DESCRIBE)], "of-transactions", range(1, 7), prepare=transactions_are_served),
    Row("join_group",
        lambda c: {"group_id": c.g, "session_timeout": 1, "rebalance_timeout": 1, "protocol_type": "consumer",
                   "protocols": [{"name": "range", "metadata": b"m"}]},
        [group(O.READ)], prepare=groups_are_served),
    Row("sync_group",
        lambda c: {"group_id": c.g, "generation_id": 1, "member_id": "m", "protocol_type": "consumer",
                   "protocol_name": "range", "assignments": []},
        [group(O.READ)], prepare=groups_are_served),
    Row("heartbeat", lambda c: {"group_id": c.g, "generation_id": 1, "member_id": "m"}, [group(O.READ)],
        prepare=groups_are_served),
    Row("leave_group", lambda c: {"group_id": c.g, "member_id": "m", "members": [{"member_id": "m"}]},
        [group(O.READ)], prepare=groups_are_served),
    Row("describe_groups", lambda c: {"groups": [c.g], "include_authorized_operations": True},
        [group(O.DESCRIBE), group(O.DELETE)], prepare=offsets_are_committed),
    Row("list_groups", lambda c: {}, [group(O.DESCRIBE)], only_own=True, prepare=offsets_are_committed),
    Row("list_groups", lambda c: {}, [cluster(O.DESCRIBE)], "of-the-cluster", only_own=True,
        prepare=offsets_are_committed),
    Row("delete_groups", lambda c: {"groups_names": [c.g]}, [group(O.DESCRIBE), group(O.DELETE)],
        prepare=offsets_are_committed),
    Row("offset_delete",
        lambda c: {"group_id": c.g, "topics": of_both(c, "name", partitions=[{"partition_index": 0}])},
        [group(O.DELETE), topic(O.READ)], prepare=offsets_are_committed),
    Row("consumer_group_heartbeat",
        lambda c: {"group_id": c.g, "member_id": "A" * 22, "member_epoch": 0, "rebalance_timeout": 10_000,
                   "subscribed_topic_names": [c.t.name, c.u.name], "topic_partitions": []},
        [group(O.READ), topic(O.DESCRIBE)], prepare=groups_are_served),
    Row("consumer_group_describe", lambda c: {"group_ids": [c.g], "include_authorized_operations": True},
        [group(O.DESCRIBE)], prepare=groups_are_served),
    Row("consumer_group_describe", lambda c: {"group_ids": [c.g]},
        [group(O.DESCRIBE), topic(O.DESCRIBE), topic(O.DESCRIBE, "u")], "with-a-member", prepare=member_owns_both),
    Row("create_topics", created, [topic(O.CREATE, "m"), topic(O.DESCRIBE_CONFIGS, "m")]),
    Row("create_topics", created, [cluster(O.CREATE)], "by-the-cluster"),
    Row("create_partitions",
        lambda c: {"topics": [{"name": each, "count": 2, "assignments": None} for each in
                              (c.t.name, c.u.name, c.name("m"))], "timeout": 5000, "validate_only": True},
        [topic(O.ALTER)]),
    Row("delete_topics", lambda c: {"topic_names": [c.t.name, c.u.name, c.name("m")],
                                    "topics": [{"name": each} for each in (c.t.name, c.u.name, c.name("m"))],
                                    "timeout": 5000},
        [topic(O.DESCRIBE), topic(O.DELETE)]),
    Row("delete_topics", lambda c: {"topics": [{"name": None, "topic_id": as_uuid(each.id)} for each in (c.t, c.u)],
                                    "timeout": 5000},
        [topic(O.DESCRIBE)], "by-id", range(6, 7)),
    Row("delete_records",
        lambda c: {"topics": [{"name": each, "partitions": [{"partition_index": 0, "offset": 0}]}
                              for each in (c.t.name, c.u.name, c.name("m"))], "timeout": 5000},
        [topic(O.DELETE)]),
    Row("init_producer_id", lambda c: {"transactional_id": None, "transaction_timeout": 60_000}, [topic(O.WRITE)],
        prepare=transactions_are_served),
    Row("init_producer_id", lambda c: {"transactional_id": None, "transaction_timeout": 60_000},
        [cluster(O.IDEMPOTENT_WRITE)], "by-the-cluster", prepare=transactions_are_served),
    Row("init_producer_id", lambda c: {"transactional_id": c.x, "transaction_timeout": 60_000},
        [transaction(O.DESCRIBE), transaction(O.WRITE)], "in-transaction", prepare=transactions_are_served),
    Row("add_partitions_to_txn", added_to_transaction,
        [transaction(O.WRITE), topic(O.WRITE), topic(O.WRITE, "u")], versions=range(4),
        prepare=transactions_are_served),
    Row("add_partitions_to_txn", added_to_transaction, [cluster(O.CLUSTER_ACTION)], "among-brokers", range(4, 6),
        prepare=transactions_are_served),
    Row("add_offsets_to_txn",
        lambda c: {"transactional_id": c.x, "producer_id": 1, "producer_epoch": 0, "group_id": c.g},
        [transaction(O.WRITE), group(O.READ)], prepare=both_are_served),
    Row("txn_offset_commit",
        commit_in_transaction,
        [transaction(O.WRITE), group(O.READ), topic(O.READ)], prepare=both_are_served),
    Row("end_txn",
        lambda c: {"transactional_id": c.x, "producer_id": 1, "producer_epoch": 0, "committed": True},
        [transaction(O.WRITE)], prepare=transactions_are_served),
    Row("write_txn_markers", markers, [cluster(O.CLUSTER_ACTION)]),
    Row("write_txn_markers", markers, [cluster(O.ALTER)], "by-alter"),
    Row("describe_transactions", lambda c: {"transactional_ids": [c.x]}, [transaction(O.DESCRIBE)],
        prepare=transactions_are_served),
    Row("describe_transactions", lambda c: {"transactional_ids": [c.x]},
        [transaction(O.DESCRIBE), topic(O.DESCRIBE), topic(O.READ, "u")], "under-way", prepare=transaction_is_open),
    Row("list_transactions", lambda c: {}, [transaction(O.DESCRIBE)], prepare=transaction_is_known),
    Row("describe_producers",
        lambda c: {"topics": [{"name": each, "partition_indexes": [0]} for each in (c.t.name, c.u.name)]},
        [topic(O.DESCRIBE), topic(O.READ)]),
    Row("offset_for_leader_epoch",
        lambda c: {"replica_id": -1, "topics": [
            {"topic": each, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            for each in (c.t.name, c.u.name)]},
        [topic(O.DESCRIBE), cluster(O.CLUSTER_ACTION)]),
    Row("describe_configs",
        lambda c: {"resources": configs_of(c, configuration_keys=["compression.type"])},
        [topic(O.DESCRIBE_CONFIGS), cluster(O.DESCRIBE_CONFIGS)]),
    Row("alter_configs", altered_configs, [topic(O.ALTER_CONFIGS), cluster(O.ALTER_CONFIGS)]),
    Row("incremental_alter_configs", lambda c: altered_configs(c, config_operation=0),
        [topic(O.ALTER_CONFIGS), cluster(O.ALTER_CONFIGS)]),
    Row("list_config_resources", lambda c: {"resource_types": [16]}, [cluster(O.DESCRIBE_CONFIGS)]),
    Row("alter_replica_log_dirs",
        lambda c: {"dirs": [{"path": "/no/such/folder", "topics": [{"name": c.t.name, "partitions": [0]}]}]},
        [cluster(O.ALTER)]),
    Row("describe_log_dirs", lambda c: {"topics": [{"topic": c.name("m"), "partitions": [0]}]}, [cluster(O.DESCRIBE)]),
    Row("describe_cluster", lambda c: {"include_cluster_authorized_operations": True},
        [cluster(O.DESCRIBE), cluster(O.ALTER_CONFIGS)]),
    Row("elect_leaders",
        lambda c: {"election_type": 0, "topic_partitions": [{"topic": c.t.name, "partitions": [0]}], "timeout": 5000},
        [cluster(O.ALTER)]),
    Row("alter_partition_reassignments",
        lambda c: {"timeout": 5000, "topics": [{"name": c.name("m"), "partitions": [
            {"partition_index": 0, "replicas": [1]}]}]},
        [cluster(O.ALTER)]),
    Row("list_partition_reassignments",
        lambda c: {"timeout": 5000, "topics": [{"name": c.t.name, "partition_indexes": [0]}]}, [cluster(O.DESCRIBE)]),
    Row("describe_quorum",
        lambda c: {"topics": [{"topic_name": c.t.name, "partitions": [{"partition_index": 0}]}]},
        [cluster(O.DESCRIBE)]),
    Row("unregister_broker", lambda c: {"broker_id": 77}, [cluster(O.ALTER)]),
    Row("update_features", lambda c: {"timeout": 5000, "feature_updates": []}, [cluster(O.ALTER)]),
    Row("create_acls", lambda c: {"creations": [rule(c)]}, [cluster(O.ALTER)]),
    Row("describe_acls", rules_wanted, [cluster(O.DESCRIBE)]),
    Row("delete_acls", lambda c: {"filters": [rules_wanted(c)]}, [cluster(O.ALTER)]),
    Row("describe_client_quotas",
        lambda c: {"components": [{"entity_type": "user", "match_type": 0, "match": c.name("a")}], "strict": True},
        [cluster(O.DESCRIBE_CONFIGS)]),
    Row("describe_user_scram_credentials", lambda c: {"users": [{"name": c.name("a")}]}, [cluster(O.DESCRIBE)]),
    Row("alter_user_scram_credentials",
        lambda c: {"deletions": [{"name": c.name("a"), "mechanism": 1}], "upsertions": []}, [cluster(O.ALTER)]),
    Row("alter_client_quotas",
        lambda c: {"entries": [{"entity": [{"entity_type": "user", "entity_name": c.name("a")}],
                                "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]}],
                   "validate_only": True},
        [cluster(O.ALTER_CONFIGS)]),
)  # fmt: skip

ASKS_NOTHING = ("api_versions",)
"""APIs that everybody may use."""
