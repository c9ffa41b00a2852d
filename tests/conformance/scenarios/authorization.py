"""Every API asked by a guest with no right, and again after each right of its ladder (see `permissions.py`).

The guest comes from another address of this machine. Everybody else, the brokers' own traffic too, may do everything.
"""

from dataclasses import replace
from typing import Final

from moldau.types.acls import Operation, Pattern, Permission, Resource
from tests.conformance.permissions import TABLE, Grant, Row, Scene
from tests.conformance.scenario import Script, scenario
from tests.conformance.scenarios.consumer_groups import Asker, open_group, places
from tests.conformance.session import Session
from tests.conformance.transactors import ADDS_PARTITIONS_FROM, Transactor, sorted_partitions
from tests.conformance.wire_client import WireClient

ANYBODY: Final = "User:ANONYMOUS"
HOST: Final = "127.0.0.1"
GUEST: Final = "127.0.0.2"
CLUSTER: Final = "kafka-cluster"


def creation(resource: Resource, name: str, host: str, operation: Operation) -> dict[str, object]:
    return {
        "resource_type": resource, "resource_name": name, "resource_pattern_type": Pattern.LITERAL,
        "principal": ANYBODY, "host": host, "operation": operation, "permission_type": Permission.ALLOW,
    }  # fmt: skip


def create(s: Session, *creations: dict[str, object]) -> None:
    """Returns when the broker that is asked knows the rules."""
    answer = s.send("create_acls", {"creations": list(creations)})
    assert all(result["error_code"] == "NONE" for result in answer["results"]), answer
    last = creations[-1]

    def known() -> bool:
        wanted = {
            "resource_type_filter": last["resource_type"], "resource_name_filter": last["resource_name"],
            "pattern_type_filter": Pattern.LITERAL, "principal_filter": ANYBODY, "host_filter": last["host"],
            "operation": last["operation"], "permission_type": Permission.ALLOW,
        }  # fmt: skip
        return bool(s.send("describe_acls", wanted)["resources"])

    s.until(known, "an access rule")


def lock(s: Session) -> None:
    """From now on nothing is left that no rule is about, and the guest has no right."""
    create(
        s,
        *(creation(kind, CLUSTER if kind is Resource.CLUSTER else "*", HOST, Operation.ALL) for kind in Resource),
    )
    guests = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": GUEST, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    s.send("delete_acls", {"filters": [guests]})
    s.until(lambda: not s.send("describe_acls", guests)["resources"], "the guest's rules to be gone")


def play_ladder(row: Row, s: Session) -> None:
    lock(s)
    scene = Scene(s, s.create("t"), s.create("u"))
    row.prepare(scene)
    guest = replace(s, client=WireClient(s.client.host, s.client.port, GUEST))
    try:
        guest.ask("nothing granted", row.api, row.content(scene), only_own=row.only_own)
        for grant in row.ladder:
            create(s, creation(grant.resource, full_name(scene, grant), GUEST, grant.operation))
            step = f"{grant.operation.name} on {grant.resource.name} {grant.name} granted"
            guest.ask(step, row.api, row.content(scene), only_own=row.only_own)
    finally:
        guest.client.close()


def full_name(scene: Scene, grant: Grant) -> str:
    return CLUSTER if grant.resource is Resource.CLUSTER else scene.name(grant.name)


def script_of(row: Row) -> Script:
    def script(s: Session, version: int) -> None:
        play_ladder(row, s)

    script.__name__ = "_".join(filter(None, ("authorized", row.api, row.about)))
    return script


@scenario("consumer_group_heartbeat", versions=[1], guarded=True)
def authorized_expressions(s: Session, version: int) -> None:
    """An expression stands for no more than the topics that its member may describe."""
    lock(s)
    one = s.create("one", 2)
    s.create("two", 1)
    group = open_group(s)
    create(s, *(creation(kind, name, GUEST, operation) for kind, name, operation in (
        (Resource.GROUP, group, Operation.READ), (Resource.TOPIC, one.name, Operation.DESCRIBE),
    )))  # fmt: skip
    guest = replace(s, client=WireClient(s.client.host, s.client.port, GUEST))
    try:
        g = Asker(guest, group)
        wanted = {"subscribed_topic_regex": s.normaliser.prefix + "[ot].*", "subscribed_topic_names": None}
        g.join("joins", "m", **wanted)

        def resolved() -> bool:
            answer = s.send("consumer_group_describe", {"group_ids": [group]})
            return bool(answer["groups"][0]["group_epoch"] > 1)

        s.until(resolved, "topics of the expression")
        g.heartbeat("what it sees", "m", 1)
        g.heartbeat("owns it", "m", 2, topic_partitions=places((one, [0, 1])))
        s.ask("described to others", "consumer_group_describe", {"group_ids": [group]}, version=1)
    finally:
        guest.client.close()


@scenario("produce", versions=range(3, 14), guarded=True)
def authorized_writes_in_transactions(s: Session, version: int) -> None:
    """Transactional batches for the open transaction of another: who may not write them leaves no trace in it."""
    lock(s)
    t, u = s.create("t"), s.create("u")
    owner = Transactor(s, "x").begin()
    owner.write(s.create("own"), "of the owner", version=version)
    batch = owner.produce(t, "of the guest")
    joined = {**batch, "topic_data": [*batch["topic_data"], *owner.produce(u, "of the guest")["topic_data"]]}
    guest = replace(s, client=WireClient(s.client.host, s.client.port, GUEST))

    def ask(step: str) -> None:
        guest.ask(step, "produce", joined)
        s.ask(f"{step}: the transaction", "describe_transactions", owner.itself(), version=0, edit=sorted_partitions)

    try:
        ask("nothing granted")
        create(s, creation(Resource.TOPIC, t.name, GUEST, Operation.WRITE))
        ask("WRITE on TOPIC t granted")
        create(s, creation(Resource.TRANSACTIONAL_ID, owner.transactional_id, GUEST, Operation.DESCRIBE))
        ask("DESCRIBE on TRANSACTIONAL_ID x granted")
        create(s, creation(Resource.TRANSACTIONAL_ID, owner.transactional_id, GUEST, Operation.WRITE))
        if version < ADDS_PARTITIONS_FROM:
            ask("WRITE on TRANSACTIONAL_ID x granted, announced by nobody")
            owner.announce(t, 0)
        ask("WRITE on TRANSACTIONAL_ID x granted")
        ask("sent once more")
    finally:
        guest.client.close()


for each in TABLE:
    scenario(each.api, each.versions, guarded=True)(script_of(each))
