"""What is taken from log directories that a real Apache Kafka has left, what is not, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from moldau.metadata.adoption import kraft_records
from moldau.metadata.adoption.kraft_records import (
    AclFound,
    AclRemoved,
    Partition,
    QuotaFound,
    ScramFound,
    Setting,
    UnreadableMetadataError,
)
from moldau.metadata.adoption.kraft_state import KraftState, Resource, read_state
from moldau.metadata.adoption.plan import Plan, plan
from moldau.metadata.adoption.survey import CannotAdoptError, nobody_else, survey
from moldau.security.authentication.scram import credential_of, salted
from moldau.storage.files import OsFiles
from moldau.types import acls
from moldau.types.credentials import ScramCredential
from moldau.wire.primitives import compact_string, uvarint
from moldau.wire.records import Record, build_batch
from tests.support.kafka_folders import KafkaFolders, unpack

TOPIC_ID = UUID(int=42)


@pytest.fixture
def kraft(tmp_path: Path) -> KafkaFolders:
    return unpack("kraft", tmp_path)


@pytest.fixture(params=["kraft", "kraft3"])
def any_kraft(request: pytest.FixtureRequest, tmp_path: Path) -> KafkaFolders:
    return unpack(request.param, tmp_path)


def planned(*folders: Path) -> Plan:
    return plan(survey(folders), UUID(int=1))


def left(made: Plan) -> dict[str, str]:
    return {f"{each.what} {each.name}": each.reason for each in made.not_taken}


# -- what is taken ----------------------------------------------------------------------------------------------------


def test_topics_settings_and_producer_ids_come_from_kafkas_metadata(kraft: KafkaFolders) -> None:
    made = planned(*kraft.both)
    assert {topic.name: dict(topic.settings) for topic in made.topics if not topic.name.startswith("__")} == (
        kraft.expected["configs"]
    )
    assert [(topic.name, len(topic.logs)) for topic in made.topics] == [
        ("__consumer_offsets", 3),
        ("__transaction_state", 3),
        ("again", 1),
        ("empty.topic", 1),
        ("events", 3),
        ("latest-state", 1),
        ("payments", 2),
    ]
    # One above the epoch that the last leader had: it gave up the lead when it stopped.
    assert {epoch for topic in made.topics for epoch in topic.leader_epochs} == {1}
    assert made.settings == {
        Resource(4, ""): {"log.cleaner.threads": "2", "message.max.bytes": "2000000", "min.insync.replicas": "1"},
        Resource(4, "1"): {"log.cleaner.io.buffer.size": "600000"},
        Resource(32, "readers"): {"consumer.session.timeout.ms": "50000"},
    }
    assert made.next_producer_id == 1000


def test_what_is_not_taken_is_told(any_kraft: KafkaFolders) -> None:
    told = left(planned(*any_kraft.both))
    (deleted,) = told
    assert deleted.startswith("folder") and "again-0." in deleted and told[deleted] == "its topic was deleted"


def test_rules_users_and_quotas_are_taken(any_kraft: KafkaFolders) -> None:
    made = planned(*any_kraft.both)
    assert list(made.acls.values()) == [
        acls.Acl(
            acls.Resource.TOPIC,
            acls.Pattern.LITERAL,
            "events",
            "User:alice",
            "*",
            acls.Operation.READ,
            acls.Permission.ALLOW,
        )
    ]
    credential = made.scram_users["alice"]["SCRAM-SHA-256"]
    salted_password = salted("sha256", "secret", credential.salt, credential.iterations)
    assert credential == credential_of("SCRAM-SHA-256", credential.salt, credential.iterations, salted_password)
    assert made.quotas == {(("client-id", "slow"),): {"producer_byte_rate": 1000.0}}


def test_what_was_taken_away_again_is_not_taken() -> None:
    state, acl_id = KraftState(), UUID(int=9)
    entity = (("user", "bob"), ("client-id", None))
    for record in (
        AclFound(acl_id, 2, "t", 3, "User:bob", "*", 3, 3),
        ScramFound("bob", 1, ScramCredential(b"s", 4096, b"k", b"K")),
        ScramFound("bob", 2, ScramCredential(b"s", 4096, b"k", b"K")),
        QuotaFound(entity, "producer_byte_rate", 5.0),
        QuotaFound(entity, "consumer_byte_rate", 6.0),
    ):
        state.apply(record)
    assert set(state.acls) == {acl_id} and set(state.scram_users["bob"]) == {1, 2}
    assert state.quotas == {
        (("client-id", None), ("user", "bob")): {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    }
    for record in (
        AclRemoved(acl_id),
        ScramFound("bob", 1, None),
        ScramFound("bob", 2, None),
        QuotaFound(entity, "producer_byte_rate", None),
        QuotaFound(entity, "consumer_byte_rate", None),
    ):
        state.apply(record)
    assert (state.acls, state.scram_users, state.quotas) == ({}, {}, {})


def test_the_records_after_the_last_snapshot_count_and_an_older_snapshot_leads_to_the_same(kraft: KafkaFolders) -> None:
    folder = kraft.first / "__cluster_metadata-0"
    whole = read_state(folder)
    for snapshot in sorted(folder.glob("*.checkpoint"), reverse=True):
        snapshot.unlink()
        assert read_state(folder) == whole


def test_without_kraft_the_topics_come_from_the_folders(tmp_path: Path) -> None:
    kafka = unpack("zookeeper", tmp_path)
    made = planned(*kafka.both)
    assert made.from_zookeeper
    assert {topic.name: len(topic.logs) for topic in made.topics if not topic.name.startswith("__")} == {
        "again": 1,
        "empty.topic": 1,
        "events": 3,
        "latest-state": 1,
        "payments": 2,
    }
    by_name = {topic.name: topic for topic in made.topics}
    assert by_name["events"].id == by_name["events"].logs[0].topic_id
    # Nobody knows how long they were to be kept: the default would delete them.
    assert by_name["events"].settings == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert by_name["__consumer_offsets"].settings["cleanup.policy"] == "compact"
    assert made.next_producer_id >= 1_000_000
    assert "of topics" in " ".join(left(made)) and "of other brokers" in " ".join(left(made))


def test_a_topic_without_an_id_gets_one(tmp_path: Path) -> None:
    kafka = unpack("zookeeper", tmp_path)
    for path in tmp_path.rglob("partition.metadata"):
        path.unlink()
    ids = {topic.id for topic in planned(*kafka.both).topics}
    assert len(ids) == 7


# -- what is left behind ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kraft", "kraft3", "zookeeper"])
def test_a_topic_that_misses_a_partition_is_left_behind(kind: str, tmp_path: Path) -> None:
    kafka = unpack(kind, tmp_path)
    (lost,) = tmp_path.rglob("events-1")
    shutil.rmtree(lost)
    made = planned(*kafka.both)
    assert "events" not in {topic.name for topic in made.topics}
    assert left(made)["topic events"] == "these log directories hold no log of partition 1"


def test_a_folder_of_a_topic_that_was_deleted_and_made_again_is_no_part_of_the_new_one(kraft: KafkaFolders) -> None:
    (folder,) = kraft.first.parent.glob("*/again-0")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAKg")
    told = left(planned(*kraft.both))
    assert told["topic again"] == "these log directories hold no log of partition 0"
    assert told[f"folder {folder}"] == "its topic is not in the cluster"


@pytest.mark.parametrize(
    ("isr", "eligible", "taken"), [((1, 2), (), True), ((), (1,), True), ((2,), (), False), ((2,), (1,), True)]
)
def test_only_what_was_in_sync_is_taken(
    kraft: KafkaFolders, isr: tuple[int, ...], eligible: tuple[int, ...], taken: bool
) -> None:
    found = survey(kraft.both)
    assert found.state is not None
    topic_id = found.state.topics["again"]
    found.state.partitions[topic_id][0] = Partition(0, topic_id, (1, 2), isr, 7, eligible)
    made = plan(found, UUID(int=1))
    assert ("again" in {topic.name for topic in made.topics}) == taken
    assert ("newer records of partition 0" in left(made).get("topic again", "")) != taken


def test_settings_that_mean_nothing_here_or_could_keep_the_broker_from_starting_are_left(kraft: KafkaFolders) -> None:
    found = survey(kraft.both)
    assert found.state is not None
    for setting in (
        Setting(2, "events", "message.format.version", "2.0"),
        Setting(4, "", "listener.name.plaintext.ssl.keystore.location", "/x"),
        Setting(4, "1", "listeners", "PLAINTEXT://:1"),
        Setting(4, "2", "log.cleaner.threads", "3"),
        Setting(2, "payments", "remote.storage.enable", "true"),
    ):
        found.state.apply(setting)
    made = plan(found, UUID(int=1))
    told = left(made)
    assert told["setting message.format.version of topic events"] == "it is unknown here"
    assert told["setting listeners of broker 1"] == "it is set when the broker starts"
    assert told["settings of broker 2"] == "it is another broker"
    assert told["topic payments"] == "a part of its records lies in tiered storage"
    assert made.settings[Resource(4, "1")] == {"log.cleaner.io.buffer.size": "600000"}
    assert "listener.name.plaintext.ssl.keystore.location" not in made.settings[Resource(4, "")]


def test_records_in_a_format_before_011_are_not_taken(kraft: KafkaFolders) -> None:
    (segment,) = kraft.first.parent.glob("*/again-0/*.log")
    data = bytearray(segment.read_bytes())
    data[16] = 1
    segment.write_bytes(data)
    assert "before Kafka 0.11" in left(planned(*kraft.both))["topic again"]


# -- what is refused --------------------------------------------------------------------------------------------------


def refusal(*folders: Path) -> str:
    with pytest.raises((CannotAdoptError, UnreadableMetadataError)) as refused:
        survey(folders)
    return str(refused.value)


def test_a_broker_that_was_not_stopped_in_good_order_is_refused_with_what_to_do(kraft: KafkaFolders) -> None:
    (kraft.second / ".kafka_cleanshutdown").unlink()
    said = refusal(*kraft.both)
    assert str(kraft.second) in said and "start Apache Kafka on it once more, stop it with SIGTERM" in said


def test_a_broker_that_runs_is_refused(kraft: KafkaFolders) -> None:
    (kraft.first / ".lock").touch()
    lock = OsFiles().lock(str(kraft.first / ".lock"))
    with pytest.raises(CannotAdoptError, match="in use by a broker"), nobody_else(kraft.both):
        pass
    OsFiles().close(lock)
    with nobody_else(kraft.both):
        pass
    assert not (kraft.second / ".lock").exists()


def test_folders_of_two_brokers_are_refused(kraft: KafkaFolders, tmp_path: Path) -> None:
    other = unpack("zookeeper", tmp_path / "other")
    assert "give the log directories of one broker" in refusal(kraft.first, other.first)


def test_what_is_no_folder_of_kafka_is_refused(kraft: KafkaFolders, tmp_path: Path) -> None:
    assert "is no directory" in refusal(tmp_path / "none")
    assert "no log directory of Apache Kafka" in refusal(tmp_path)
    assert "give all entries of log.dirs" in refusal(kraft.second)


def test_a_log_of_metadata_that_begins_too_late_is_refused(kraft: KafkaFolders) -> None:
    folder = kraft.first / "__cluster_metadata-0"
    for snapshot in folder.glob("*.checkpoint"):
        snapshot.unlink()
    (folder / f"{0:020d}.log").rename(folder / f"{9:020d}.log")
    assert "the records between 0 and 9 are missing" in refusal(*kraft.both)


# -- metadata records -------------------------------------------------------------------------------------------------


def topic_record(name: str, topic_id: UUID, version: int = 0) -> bytes:
    return bytes([1, 2, version]) + compact_string(name) + topic_id.bytes + uvarint(0)


def replayed(tmp_path: Path, *values: bytes) -> KraftState:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(build_batch([Record(value) for value in values], base_offset=0))
    return read_state(folder)


BEGIN, END, ABORT = (bytes([1, kind, 0, 0]) for kind in (23, 24, 25))


def test_records_that_belong_together_count_when_their_end_is_there(tmp_path: Path) -> None:
    records = [
        BEGIN,
        topic_record("a", UUID(int=1)),
        END,
        BEGIN,
        topic_record("b", UUID(int=2)),
        ABORT,
        topic_record("c", UUID(int=3)),
        BEGIN,
        topic_record("d", UUID(int=4)),
    ]
    assert sorted(replayed(tmp_path, *records).topics) == ["a", "c"]


def test_records_of_a_newer_kafka_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableMetadataError, match="type 2 has version 1, which is newer"):
        replayed(tmp_path, topic_record("a", TOPIC_ID, version=1))


def test_records_that_are_cut_off_are_refused() -> None:
    with pytest.raises(UnreadableMetadataError):
        kraft_records.decode(topic_record("a", TOPIC_ID)[:-5])


def test_kinds_that_say_nothing_about_data_are_passed_over() -> None:
    assert kraft_records.decode(bytes([1, 20, 0, 0])) is None
    assert kraft_records.decode(bytes([1, 99, 7])) is None
