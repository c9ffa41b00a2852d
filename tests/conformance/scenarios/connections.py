"""What happens to a connection on which something else than a good request arrives."""

import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.messages import api, encode_request, is_flexible
from tests.conformance.scenario import Script, scenario
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session
from tests.conformance.wire_client import frame, request_header, string_field

APIS_SERVED = (
    "produce", "fetch", "list_offsets", "metadata", "offset_fetch", "find_coordinator", "api_versions",
    "create_topics", "delete_topics", "delete_records", "init_producer_id", "offset_for_leader_epoch",
    "describe_configs", "alter_configs", "alter_replica_log_dirs", "describe_log_dirs", "create_partitions",
    "incremental_alter_configs", "describe_cluster", "describe_producers", "list_config_resources",
    "describe_topic_partitions", "offset_commit", "offset_delete", "join_group", "sync_group", "heartbeat",
    "leave_group", "describe_groups", "list_groups", "delete_groups",
    "add_partitions_to_txn", "add_offsets_to_txn", "txn_offset_commit", "end_txn", "write_txn_markers",
    "describe_transactions", "list_transactions", "update_features",
    "consumer_group_heartbeat", "consumer_group_describe", "elect_leaders",
    "alter_partition_reassignments", "list_partition_reassignments", "describe_quorum", "unregister_broker",
    "describe_acls", "create_acls", "delete_acls", "describe_client_quotas", "alter_client_quotas",
    "sasl_handshake", "sasl_authenticate", "describe_user_scram_credentials", "alter_user_scram_credentials",
    "create_delegation_token", "renew_delegation_token", "expire_delegation_token", "describe_delegation_token",
)  # fmt: skip

# Requests that are complete but ask for little, so that a cut or a stray byte hits a field and not an empty list.
SMALL_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "produce": {"acks": -1, "timeout": 1000, "topic_data": []},
    "fetch": {"replica_id": -1, "topics": []},
    "list_offsets": {"replica_id": -1, "topics": []},
    "metadata": {"topics": [], "allow_auto_topic_creation": False},
    "offset_fetch": {"group_id": "g", "groups": [{"group_id": "g"}]},
    "find_coordinator": {"key": "g", "key_type": 0, "coordinator_keys": []},
    "api_versions": {"client_software_name": "conformance", "client_software_version": "1"},
    "init_producer_id": {"transactional_id": None, "transaction_timeout": 1000},
    "describe_log_dirs": {"topics": []},
    "list_config_resources": {"resource_types": [16]},
    "describe_topic_partitions": {"topics": [{"name": "no-such-topic"}]},
    "offset_commit": {"group_id": "g", "topics": []},
    "offset_delete": {"group_id": "", "topics": []},
    "join_group": {"group_id": "", "protocols": [{"name": "range", "metadata": b"m"}]},
    "sync_group": {"group_id": "", "assignments": [{"member_id": "m", "assignment": b"a"}]},
    "heartbeat": {"group_id": "", "member_id": "m"},
    "leave_group": {"group_id": "", "member_id": "m", "members": [{"member_id": "m"}]},
    "describe_groups": {"groups": ["no-such-group"]},
    "delete_groups": {"groups_names": ["no-such-group"]},
    "add_partitions_to_txn": {"v3_and_below_topics": [], "transactions": [{"topics": []}]},
    "add_offsets_to_txn": {"transactional_id": "", "group_id": "g"},
    "txn_offset_commit": {"transactional_id": "", "group_id": "", "topics": []},
    "end_txn": {"transactional_id": ""},
    "write_txn_markers": {"markers": []},
    "describe_transactions": {"transactional_ids": [""]},
    "list_transactions": {"state_filters": ["Dead"], "producer_id_filters": [1]},
    "update_features": {"timeout": 1000, "feature_updates": []},
    "consumer_group_heartbeat": {"group_id": "", "member_id": "m"},
    "consumer_group_describe": {"group_ids": [""]},
    "alter_partition_reassignments": {"topics": [{"name": "no-such-topic", "partitions": [{"partition_index": 0}]}]},
    "list_partition_reassignments": {"topics": [{"name": "no-such-topic", "partition_indexes": [0]}]},
    "describe_quorum": {"topics": [{"topic_name": "no-such-topic", "partitions": [{"partition_index": 0}]}]},
    "describe_acls": {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    "create_acls": {
        "creations": [
            {
                "resource_type": 2,
                "resource_name": "t",
                "resource_pattern_type": 3,
                "principal": "User:a",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ],
    },
    "delete_acls": {
        "filters": [{"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}],
    },
    "elect_leaders": {"topic_partitions": [{"topic": "no-such-topic", "partitions": [0]}], "timeout": 1000},
    "describe_client_quotas": {"components": [{"entity_type": "user", "match_type": 0, "match": "nobody"}]},
    "alter_client_quotas": {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "nobody"}],
                "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
            }
        ],
        "validate_only": True,
    },
    "create_delegation_token": {
        "renewers": [{"principal_type": "User", "principal_name": "a"}],
        "max_lifetime": 1000,
    },
    "renew_delegation_token": {"hmac": b"none", "renew_period": 1000},
    "expire_delegation_token": {"hmac": b"none", "expiry_time_period": 1000},
    "describe_delegation_token": {"owners": [{"principal_type": "User", "principal_name": "a"}]},
}


@scenario("api_versions", versions=[0])
def raw_frames(s: Session, version: int) -> None:
    noise = random.Random(1)
    s.ask_raw("negative size", struct.pack(">i", -1))
    s.ask_raw("most negative size", struct.pack(">i", -(2**31)))
    s.ask_raw("largest size", struct.pack(">i", 2**31 - 1))
    s.ask_raw("one byte over socket.request.max.bytes", struct.pack(">i", 104857601))
    s.ask_raw("empty frame", struct.pack(">i", 0))
    for size in (1, 3, 7, 8, 9):
        s.ask_raw(f"frame of {size} zero bytes", frame(bytes(size)))
    s.ask_raw("text of another protocol", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for number in range(5):
        s.ask_raw(f"frame of random bytes {number}", frame(noise.randbytes(100)))
    for key in (-1, 4, 52, 93, 999, 32767):
        s.ask_raw(f"api key {key}", frame(request_header(key, 0, 1, flexible=False)))
    header = struct.pack(">hhi", 18, 0, 1)
    s.ask_raw("client id of length -2", frame(header + struct.pack(">h", -2)))
    s.ask_raw("client id longer than the frame", frame(header + struct.pack(">h", 100) + b"abc"))
    s.ask_raw("client id that is not UTF-8", frame(header + struct.pack(">h", 2) + b"\xff\xfe"))
    s.ask_raw("header without client id field", frame(header))
    s.ask_raw("null client id", frame(header + string_field(None)))
    s.ask_raw("empty client id", frame(header + string_field("")))
    s.ask_raw("negative correlation id", frame(request_header(18, 0, -5, flexible=False)))


@scenario("api_versions", versions=[0])
def frames_in_pieces(s: Session, version: int) -> None:
    whole = frame(request_header(18, 0, 7, flexible=False))
    for position in range(len(whole)):
        s.client.send(whole[position : position + 1])
    answer = s.client.receive()
    s.note("byte by byte", len(answer) > 4 if isinstance(answer, bytes) else answer.value)
    s.client.send(whole + whole[:5])
    first = s.client.receive()
    s.client.send(whole[5:])
    second = s.client.receive()
    s.note("one and a piece", first == second)


@scenario("api_versions", versions=[0])
def unsupported_versions(s: Session, version: int) -> None:
    for name in APIS_SERVED:
        known = api(name)
        body = encode_request(name, known.highest, SMALL_REQUESTS.get(name, {}))
        answer_version = 0 if name == "api_versions" else None
        for wrong in (known.highest + 1, 99, 32767, -1, known.lowest - 1):
            if wrong == -1 and known.lowest == 0 and f"{name} v-1" in s.answers:
                continue
            if name == "init_producer_id" and wrong == 6:
                continue  # an unstable version, refused like the others; kio has a schema for it
            s.ask_bytes(f"{name} v{wrong}", name, wrong, body, answer_version=answer_version)


@scenario("produce", versions=range(3))
def produce_versions_announced_but_refused(s: Session, version: int) -> None:
    """Announced for the sake of old clients that infer features from it, not served."""
    empty = struct.pack(">hii", -1, 1000, 0)
    s.ask_bytes("empty request", "produce", version, empty, answer_version=3)
    topic = s.create("a")
    data = struct.pack(">i", 1) + struct.pack(">ii", 0, 0)
    body = struct.pack(">hii", -1, 1000, 1) + string_field(topic.name) + data
    s.ask_bytes("a topic", "produce", version, body, answer_version=3)


def _malformed(name: str) -> Script:
    def script(s: Session, version: int) -> None:
        if name == "find_coordinator":
            s.await_coordinator(0)
        if name == "init_producer_id":
            s.new_producer()
        if name in ("offset_fetch", "offset_commit", "describe_groups", "delete_groups"):
            await_groups(s, "g", "no-such-group")
        small = SMALL_REQUESTS.get(name, {})
        steps: dict[str, Callable[[bytes], bytes]] = {
            "last byte missing": lambda body: body[:-1],
            "half of the body": lambda body: body[: len(body) // 2],
            "no body": lambda body: b"",
            "a byte too many": lambda body: body + b"\x00",
            "random body": lambda body: random.Random(version).randbytes(60),
            "all bits set": lambda body: b"\xff" * 40,
        }
        if is_flexible(name, version):
            steps["unknown tagged field"] = lambda body: body[:-1] + b"\x01\x63\x02ab"
            steps["tagged field longer than the body"] = lambda body: body[:-1] + b"\x01\x63\x20ab"
            steps["more tagged fields than bytes"] = lambda body: body[:-1] + b"\xff\xff\xff\xff\x07"
        if version in api(name).versions and not (name == "produce" and version < 3):
            for step, damage in steps.items():
                s.ask(step, name, small, damage=damage, only_own=True)

    script.__name__ = f"malformed_{name}"
    return script


for _name in APIS_SERVED:
    _versions = range(3, 14) if _name == "produce" else None
    scenario(_name, _versions)(_malformed(_name))


@scenario("api_versions", versions=[0])
def pipelined_requests(s: Session, version: int) -> None:
    """Several requests in one packet are answered in their order."""
    topic = s.create("a")
    asked = [
        ("metadata", 12, {"topics": [{"name": topic.name}]}),
        ("api_versions", 0, {}),
        ("produce", 9, s.produce(topic, s.batch("x"))),
        ("fetch", 12, s.fetch(topic, 0)),
        ("list_offsets", 7, {"replica_id": -1, "topics": []}),
    ]
    packet = b""
    for number, (name, chosen, content) in enumerate(asked):
        header = request_header(api(name).key, chosen, 1000 + number, flexible=is_flexible(name, chosen))
        packet += frame(header + encode_request(name, chosen, content))
    s.client.send(packet)
    answers = [s.client.receive() for _ in asked]
    s.note("order of answers", [struct.unpack_from(">i", a)[0] if isinstance(a, bytes) else a.value for a in answers])
