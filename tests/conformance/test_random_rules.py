"""Random access rules on Apache Kafka and on Moldau: whoever asks, both say the same of what is allowed.

Rules of all kinds meet: allowing and denying, literal, prefixed and for all names, for a user and for everybody, for
one address and for all. What two users may do from two addresses is read off the bits of authorized operations.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from moldau.security.authorizer import SUPPORTED
from moldau.types.acls import Operation, Pattern, Permission, Resource
from moldau.types.errors import ErrorCode
from moldau.wire.codec import decode, encode
from moldau.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.wire.schema import Message
from tests.conformance.wire_client import NoAnswer, WireClient, frame, request_header
from tests.peers.apache_kafka import ApacheKafka
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)

ROUNDS: Final = 40
USERS: Final = ("ann", "bob")
ADDRESSES: Final = ("127.0.0.1", "127.0.0.2")
TOPICS: Final = ("a", "ab", "abc", "b")
CLUSTER: Final = "kafka-cluster"
KINDS: Final = (Resource.TOPIC, Resource.TOPIC, Resource.TOPIC, Resource.GROUP, Resource.CLUSTER)
ANY: Final = 1
LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
WITH_FLAGS: Final = 12
"""The version of Metadata."""
FILTER: Final[dict[str, Any]] = {
    "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY, "principal_filter": None,
    "host_filter": None, "operation": ANY, "permission_type": ANY,
}  # fmt: skip


def ask(client: WireClient, request: Message, answer_class: type[R], version: int) -> R:
    flexible = version >= request.FLEXIBLE_FROM
    header = request_header(request.API_KEY, version, client.next_correlation(), flexible=flexible)
    answer = client.exchange(frame(header + bytes(encode(request, version))))
    assert not isinstance(answer, NoAnswer), answer.value
    return decode(answer_class, version, answer, 4 + flexible)[0]


class Side:
    """One of the two brokers, asked by an administrator and by everybody else from everywhere."""

    def __init__(self, open_address: str, locked_port: int) -> None:
        self.admin = WireClient(*parted(open_address))
        self.strangers = {
            (user, address): WireClient("127.0.0.1", locked_port, address) for user in USERS for address in ADDRESSES
        }
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
        ask(self.admin, CreateTopicsRequest(topics=topics, timeout_ms=10_000), CreateTopicsResponse, 5)
        for (user, _), client in self.strangers.items():
            ask(client, SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, 1)
            token = f"\0{user}\0{user}-secret".encode()
            assert ask(client, SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, 1).error_code == 0

    def set_rules(self, rules: list[AclCreation]) -> None:
        """Returns when the broker knows these rules and no others."""
        ask(self.admin, DeleteAclsRequest(filters=[DeleteAclsFilter(**FILTER)]), DeleteAclsResponse, 3)
        wait_until(lambda: self.count() == 0, "the old rules are gone")
        made = ask(self.admin, CreateAclsRequest(creations=rules), CreateAclsResponse, 3)
        assert all(each.error_code == 0 for each in made.results)
        distinct = {repr(rule) for rule in rules}
        wait_until(lambda: self.count() == len(distinct), "the new rules are there")

    def count(self) -> int:
        found = ask(self.admin, DescribeAclsRequest(**FILTER), DescribeAclsResponse, 3)
        return sum(len(each.acls) for each in found.resources)

    def allowed(self) -> dict[str, object]:
        return {
            f"{user} from {address}: {what}": said
            for (user, address), client in self.strangers.items()
            for what, said in seen(client).items()
        }

    def close(self) -> None:
        for client in (self.admin, *self.strangers.values()):
            client.close()


def seen(client: WireClient) -> dict[str, object]:
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in TOPICS],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    found: dict[str, object] = {}
    for topic in ask(client, wanted, MetadataResponse, WITH_FLAGS).topics:
        found[f"topic {topic.name}"] = (topic.error_code, topic.topic_authorized_operations)
    groups = DescribeGroupsRequest(groups=list(TOPICS), include_authorized_operations=True)
    for group in ask(client, groups, DescribeGroupsResponse, 5).groups:
        found[f"group {group.group_id}"] = (group.error_code, group.authorized_operations)
    cluster = ask(
        client, DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse, 0
    )
    found["cluster"] = (cluster.error_code, cluster.cluster_authorized_operations)
    for transactional_id in (None, ""):
        wanted_id = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
        found[f"producer {transactional_id!r}"] = settled(client, wanted_id)
    return found


def settled(client: WireClient, wanted: InitProducerIdRequest) -> int:
    """Apache Kafka fetches its first ids when it is first asked for one."""
    code: int = LOADING
    while code == LOADING:
        code = ask(client, wanted, InitProducerIdResponse, 4).error_code
    return code


def random_rule(chance: random.Random) -> AclCreation:
    kind = chance.choice(KINDS)
    pattern = Pattern.LITERAL if kind is Resource.CLUSTER else chance.choice((Pattern.LITERAL, Pattern.PREFIXED))
    name = chance.choice((*TOPICS, "abcd", "*")) if kind is not Resource.CLUSTER else CLUSTER
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=chance.choice((*(f"User:{user}" for user in USERS), "User:*")),
        host=chance.choice((*ADDRESSES, "*", "*")),
        operation=chance.choice((Operation.ALL, *SUPPORTED[kind])),
        permission_type=chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def parted(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def settings(locked_port: int, where_no_rule_is: bool) -> dict[str, object]:
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOCKED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.locked.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f"required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": str(where_no_rule_is).lower(),
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
    }


@contextmanager
def both(folder: Path, where_no_rule_is: bool) -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        sides = []
        for name, kind in (("kafka", ApacheKafka), ("moldau", Broker)):
            opened, locked, controller = free_port(), free_port(), free_port()
            listeners = f"PLAINTEXT://127.0.0.1:{opened},LOCKED://127.0.0.1:{locked}"
            own = {"listeners": listeners, "advertised.listeners": listeners}
            if kind is ApacheKafka:
                own["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{controller}"
                own["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
            broker = stack.enter_context(kind(folder / name, settings(locked, where_no_rule_is) | own, opened))
            side = Side(broker.address, locked)
            stack.callback(side.close)
            sides.append(side)
        yield sides[0], sides[1]


@pytest.mark.live
@pytest.mark.parametrize("where_no_rule_is", [False, True], ids=["refused", "allowed"])
def test_both_allow_the_same(tmp_path: Path, where_no_rule_is: bool) -> None:
    with both(tmp_path, where_no_rule_is) as (theirs, ours):
        for number in range(ROUNDS):
            chance = random.Random(struct.pack(">i?", number, where_no_rule_is))
            rules = [random_rule(chance) for _ in range(chance.randrange(1, 25))]
            for side in (theirs, ours):
                side.set_rules(rules)
            said = "\n".join(map(repr, rules))
            assert ours.allowed() == theirs.allowed(), f"round {number}\n{said}"
