"""UpdateFeatures; transactions and groups at the older levels of transaction.version and group.version."""

from typing import Any

from tests.conformance.group_members import subscription
from tests.conformance.scenario import scenario
from tests.conformance.scenarios.consumer_groups import TIMEOUT_MS, open_group
from tests.conformance.session import Session, as_uuid
from tests.conformance.transactors import Transactor, ask_until_settled, must_be_fine

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
KINDS_FROM = 1


def _update(feature: str, level: int, kind: int = UPGRADE) -> Any:
    return {
        "feature": feature, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != UPGRADE,
    }  # fmt: skip


def set_level(s: Session, feature: str, level: int) -> None:
    """Up or down, not recorded."""

    def finalized() -> int:
        found = s.send("api_versions", {"client_software_name": "c", "client_software_version": "1"})
        return {one["name"]: one["max_version_level"] for one in found["finalized_features"]}.get(feature, 0)

    before = finalized()
    if before != level:
        kind = UPGRADE if level > before else SAFE_DOWNGRADE
        must_be_fine(s.send("update_features", {"timeout": 10_000, "feature_updates": [_update(feature, level, kind)]}))
        s.until(lambda: finalized() == level, f"{feature} at {level}")


@scenario("update_features")
def update_features(s: Session, version: int) -> None:
    def ask(step: str, *updates: Any, dry: bool = True) -> None:
        content = {"timeout": 10_000, "feature_updates": list(updates), "validate_only": dry}
        s.ask(step, "update_features", content)

    def really(step: str, *updates: Any) -> None:
        ask(step, *updates, dry=False)

    ask("nothing")
    ask("unknown feature", _update("no.such.feature", 1))
    ask("empty name", _update("", 1))
    ask("level too high", _update("transaction.version", 99))
    ask("negative level", _update("transaction.version", -1))
    ask("same level", _update("transaction.version", 2))
    ask("down, said to be up", _update("transaction.version", 1))
    ask("twice", _update("group.version", 1), _update("group.version", 1))
    ask("one good, one bad", _update("group.version", 1), _update("no.such.feature", 1))
    ask("metadata version up", _update("metadata.version", 99))
    ask("metadata version the same", _update("metadata.version", 30))
    ask("metadata version deleted", _update("metadata.version", 0, UNSAFE_DOWNGRADE))
    if version >= KINDS_FROM:
        for kind in (0, 4, -1):
            ask(f"kind {kind}", _update("transaction.version", 1, kind))
        ask("down", _update("transaction.version", 1, SAFE_DOWNGRADE))
        ask("down to 0", _update("group.version", 0, SAFE_DOWNGRADE))
        ask("down, unsafe", _update("transaction.version", 0, UNSAFE_DOWNGRADE))
        ask("up, said to be down", _update("transaction.version", 2, SAFE_DOWNGRADE))
        ask("two", _update("transaction.version", 1, SAFE_DOWNGRADE), _update("group.version", 0, SAFE_DOWNGRADE))
    try:
        really("really down", _update("transaction.version", 1, SAFE_DOWNGRADE))
        really("down to nothing", _update("transaction.version", 0, SAFE_DOWNGRADE))
        really("up by one", _update("transaction.version", 1))
        really("one good, one bad, really", _update("transaction.version", 2), _update("no.such.feature", 1))
        really("up again", _update("transaction.version", 2))
    finally:
        set_level(s, "transaction.version", 2)


@scenario("update_features", versions=[2])
def transactions_at_older_levels(s: Session, version: int) -> None:
    topic = s.create("a")
    try:
        for level in (1, 0):
            set_level(s, "transaction.version", level)
            for style, produce_version, end_version in (("old", 11, 4), ("new", 13, 5)):
                one = Transactor(s, f"{level} {style}").begin()
                name = f"level {level}, {style} client"
                if style == "old":
                    one.announce(topic, 0)
                s.ask(f"{name}: write", "produce", one.produce(topic, "x"), version=produce_version)
                s.ask(f"{name}: state", "describe_transactions", one.itself(), version=0)
                if (level, style) == (0, "new"):
                    continue
                ask_until_settled(s, f"{name}: commit", "end_txn", one.end(True), version=end_version)
                one.await_rest()
                s.ask(f"{name}: state behind it", "describe_transactions", one.itself(), version=0)
                s.ask(f"{name}: commit again", "end_txn", one.end(True), version=end_version)
                one.begin()
                if style == "old":
                    one.write(topic, "y", version=produce_version)
                    s.ask(f"{name}: init at once", "init_producer_id", one.init(), version=5)
                    before = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
                    ask_until_settled(
                        s, f"{name}: init of the owner", "init_producer_id", one.init(**before), version=5
                    )
                    ask_until_settled(s, f"{name}: init", "init_producer_id", one.init(), version=5)
    finally:
        set_level(s, "transaction.version", 2)
    s.ask("log", "fetch", s.fetch(topic, 0, isolation_level=1), version=12)


@scenario("update_features", versions=[2])
def groups_at_level_zero(s: Session, version: int) -> None:
    """The consumer protocol is refused, also to groups that use it already; their offsets and names stay."""
    topic = s.create("a", 2)
    group = open_group(s)
    joining = {"subscribed_topic_names": [topic.name], "rebalance_timeout": TIMEOUT_MS, "topic_partitions": []}
    s.send("consumer_group_heartbeat", {"group_id": group, "member_id": "m1", "member_epoch": 0, **joining})
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "kept"}
    offsets = {"name": topic.name, "topic_id": as_uuid(topic.id), "partitions": [partition]}

    def commit(step: str, epoch: int) -> None:
        asked = {"group_id": group, "generation_id_or_member_epoch": epoch, "member_id": "m1", "topics": [offsets]}
        s.ask(step, "offset_commit", asked, version=9)

    def everything(when: str, epoch: int) -> None:
        member = {"group_id": group, "member_id": "m1", "member_epoch": epoch, "rebalance_timeout": -1}
        for asked in (0, 1):
            beat = member | {"topic_partitions": None}
            s.ask(f"{when}: heartbeat v{asked}", "consumer_group_heartbeat", beat, version=asked)
            s.ask(f"{when}: describe v{asked}", "consumer_group_describe", {"group_ids": [group]}, version=asked)
        new = {"group_id": s.topic_name("new"), "member_id": "m2", "member_epoch": 0, **joining}
        s.ask(f"{when}: a new group", "consumer_group_heartbeat", new, version=1)
        commit(f"{when}: commit", epoch)
        wanted = {"name": topic.name, "topic_id": as_uuid(topic.id), "partition_indexes": [0]}
        fetched = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": [wanted]}
        s.ask(f"{when}: committed", "offset_fetch", {"groups": [fetched]}, version=9)
        s.ask(f"{when}: described as a classic group", "describe_groups", {"groups": [group]}, version=6)
        s.ask(f"{when}: listed", "list_groups", {"types_filter": ["consumer"]}, version=5, only_own=True)

    everything("level 1", 2)
    try:
        set_level(s, "group.version", 0)
        everything("level 0", 2)
        protocol = {"name": "range", "metadata": subscription(topic.name)}
        asked = {"group_id": group, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": "m3"}
        asked |= {"protocol_type": "consumer", "protocols": [protocol]}
        s.ask("a classic member nobody knows", "join_group", asked, version=9)
    finally:
        set_level(s, "group.version", 1)
    everything("again at level 1", 2)
