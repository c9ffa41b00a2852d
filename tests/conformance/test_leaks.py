"""No answer, of any API at any version, contains a name that its client may not know.

Everything on the broker is named with a word that no request contains: topics are asked for by their ids, by decoys'
names, or all at once. The requests are those of the table of permissions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from moldau.types.acls import Operation, Resource
from tests.conformance.brokers import moldau
from tests.conformance.messages import api, encode_request, is_flexible
from tests.conformance.permissions import TABLE, Row, Scene, commit, member_owns_both
from tests.conformance.scenarios.authorization import GUEST, create, creation, lock
from tests.conformance.scenarios.client_quotas import entry, kept, limit
from tests.conformance.scenarios.consumer_groups import open_group
from tests.conformance.session import Session, Topic, as_uuid, new_tag
from tests.conformance.transactors import Transactor
from tests.conformance.wire_client import NoAnswer, WireClient, frame, request_header

ASKED = [
    pytest.param(row, version, id=f"{row.api}{'-' if row.about else ''}{row.about}-v{version}")
    for row in TABLE
    for version in row.versions or api(row.api).versions
]
LISTS: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "list_config_resources": lambda c: {"resource_types": []},
    "describe_user_scram_credentials": lambda c: {"users": []},
    "describe_client_quotas": lambda c: {"components": [], "strict": False},
    "describe_log_dirs": lambda c: {"topics": None},
    "list_partition_reassignments": lambda c: {"timeout": 5000, "topics": None},
    "elect_leaders": lambda c: {"election_type": 0, "topic_partitions": None, "timeout": 5000},
    "list_transactions": lambda c: {"transactional_id_pattern": ".*"},
    "consumer_group_heartbeat": lambda c: {
        "group_id": c.name("decoy"), "member_id": "B" * 22, "member_epoch": 0, "rebalance_timeout": 10_000,
        "subscribed_topic_regex": ".*", "topic_partitions": [],
    },
    "describe_acls": lambda c: {
        "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1,
    },
    "delete_acls": lambda c: {"filters": [{
        "resource_type_filter": 2, "pattern_type_filter": 1, "host_filter": "10.11.12.13", "operation": 1,
        "permission_type": 1,
    }]},
}  # fmt: skip
"""What else can be asked about everything there is."""


class Stage(NamedTuple):
    guest: Session
    decoys: Scene
    topics: str
    """A part of the names of both topics; groups and transactional ids are called otherwise."""
    others: str


def fill(s: Session) -> Scene:
    """Topics in a group's and in a transaction's hands, a commit, a user, a quota and a rule."""
    scene = Scene(s, s.create("hidden-t"), s.create("hidden-u"))
    open_group(s, "g")
    member_owns_both(scene)
    committed = s.send("offset_commit", {**commit(scene), "group_id": s.topic_name("o")})
    assert all(part["error_code"] == "NONE" for each in committed["topics"] for part in each["partitions"])
    transactor = Transactor(s, "x").begin()
    for topic in (scene.t, scene.u):
        transactor.write(topic, "a")
    user = {
        "name": s.topic_name("user"),
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"s",
        "salted_password": b"p" * 32,
    }
    s.send("alter_user_scram_credentials", {"deletions": [], "upsertions": [user]})
    kept(s, entry([limit("producer_byte_rate", 1e9)], user=s.topic_name("user")))
    create(s, creation(Resource.TOPIC, scene.t.name, "10.11.12.14", Operation.READ))
    return scene


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with moldau(tmp_path_factory.mktemp("leaks"), guarded=True) as broker:
        host, port = broker.address.rsplit(":", 1)
        session = Session.start("kept-quiet", 0, WireClient(host, int(port)), new_tag(), broker.restart)
        lock(session)
        hidden = fill(session)
        other = Session.start("asked", 0, session.client, new_tag(), broker.restart)
        decoys = Scene(
            other, Topic(other.topic_name("t"), hidden.t.id), Topic(other.topic_name("u"), hidden.u.id)
        )  # fmt: skip
        guest = replace(other, client=WireClient(host, int(port), GUEST))
        yield Stage(guest, decoys, f"{session.normaliser.prefix}hidden", session.normaliser.prefix)
        guest.client.close()
        session.client.close()


def raw_answer(stage: Stage, name: str, version: int, content: dict[str, Any]) -> bytes:
    client = stage.guest.client
    header = request_header(api(name).key, version, 1, flexible=is_flexible(name, version))
    answer = client.exchange(frame(header + encode_request(name, version, content)))
    assert not isinstance(answer, NoAnswer), f"{name} v{version}: {answer.value}"
    assert struct.unpack_from(">i", answer)[0] == 1
    return answer


def contents_of(row: Row, stage: Stage) -> Iterator[dict[str, Any]]:
    yield row.content(stage.decoys)
    if not row.about and row.api in LISTS:
        yield LISTS[row.api](stage.decoys)


@pytest.mark.parametrize(("row", "version"), ASKED)
def test_who_has_no_right_learns_no_name(stage: Stage, row: Row, version: int) -> None:
    for content in contents_of(row, stage):
        assert stage.others.encode() not in raw_answer(stage, row.api, version, content)


@pytest.fixture(scope="module")
def knower_of_groups(stage: Stage) -> Stage:
    """The guest has every right to all groups and transactional ids, and may see that the cluster is there."""
    s = replace(stage.guest, client=stage.decoys.s.client)
    kinds = (Resource.GROUP, Resource.TRANSACTIONAL_ID)
    create(s, *(creation(kind, "*", GUEST, Operation.ALL) for kind in kinds))
    return stage


WITH_GROUPS = (
    ("consumer_group_describe", lambda prefix: {"group_ids": [prefix + "g"]}),
    ("offset_fetch", lambda prefix: {"group_id": prefix + "o", "topics": None,
                                     "groups": [{"group_id": prefix + "o", "topics": None}]}),
    ("describe_transactions", lambda prefix: {"transactional_ids": [prefix + "x"]}),
    ("list_transactions", lambda prefix: {}),
    ("list_groups", lambda prefix: {}),
    ("delete_groups", lambda prefix: {"groups_names": [prefix + "g"]}),
    ("consumer_group_heartbeat", lambda prefix: {
        "group_id": prefix + "mine", "member_id": "C" * 22, "member_epoch": 0, "rebalance_timeout": 10_000,
        "subscribed_topic_regex": ".*", "topic_partitions": [],
    }),
)  # fmt: skip


@pytest.mark.parametrize(("name", "content"), WITH_GROUPS, ids=[name for name, _ in WITH_GROUPS])
def test_who_may_see_groups_and_transactions_learns_no_topics_from_them(
    knower_of_groups: Stage, name: str, content: Callable[[str], dict[str, Any]]
) -> None:
    stage = knower_of_groups
    for version in api(name).versions:
        if name == "offset_fetch" and version < 2:
            continue  # these cannot ask for all
        answer = raw_answer(stage, name, version, content(stage.others))
        assert stage.topics.encode() not in answer, f"{name} v{version}"
        topic_id = as_uuid(stage.decoys.t.id)
        assert topic_id is not None and topic_id.bytes not in answer, f"{name} v{version}"
