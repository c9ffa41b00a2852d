"""Taking log directories over, stopped before each change on disk: nothing is lost, a second run completes it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from moldau.metadata.adoption.carrying import adopt_copy, adopt_in_place
from moldau.metadata.adoption.plan import Plan, plan
from moldau.metadata.adoption.survey import CannotAdoptError, survey
from moldau.metadata.local import LocalStore
from moldau.storage.checkpoints import read_directory
from moldau.storage.ownership import (
    METADATA_FOLDER,
    UNFINISHED_COPY,
    ForeignDirectoryError,
    UnfinishedCopyError,
    kafka_directory,
    refuse_foreign_directories,
)
from tests.fakes.lossy_files import PowerCutError
from tests.fakes.stopping_files import StoppingFiles
from tests.support.compacted import UnsyncedFiles
from tests.support.kafka_folders import KafkaFolders, contents
from tests.support.kafka_folders import unpack as unpack_all
from tests.support.managers import at_once

MANY_FILES = ("__consumer_offsets", "__transaction_state", "events", "latest-state")


def unpack(kind: str, target: Path) -> KafkaFolders:
    return unpack_all(kind, target, MANY_FILES)


def make_plan(*folders: Path) -> Plan:
    return plan(survey(folders), UUID(int=1))


def stored(first: Path) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        store = await LocalStore.open(str(first / METADATA_FOLDER), at_once, files=UnsyncedFiles())
        listing = await store.list("/")
        await store.close()
        return {path: entry.value for path, entry in listing.entries.items()}

    return asyncio.run(read())


def in_place(files: StoppingFiles, kafka: KafkaFolders, made: Plan) -> None:
    adopt_in_place(files, [str(folder) for folder in kafka.both], lambda: made, uuid4)


def folders_of_partitions(*folders: Path) -> dict[str, str]:
    kept = ("meta.properties", METADATA_FOLDER, "moldau-metadata", ".lock")
    return {name: digest for name, digest in contents(*folders).items() if not any(part in name for part in kept)}


@pytest.mark.parametrize("kind", ["kraft", "kraft3", "zookeeper"])
def test_in_place(kind: str, tmp_path: Path) -> None:
    whole = unpack(kind, tmp_path / "whole")
    before = folders_of_partitions(*whole.both)
    made = make_plan(*whole.both)
    in_place(counting := StoppingFiles(), whole, made)
    steps, expected = counting.operations, stored(whole.first)
    assert folders_of_partitions(*whole.both) == before
    refuse_foreign_directories(UnsyncedFiles(), [str(folder) for folder in whole.both])
    opened_by_kafka = []
    for step in range(steps):
        kafka = unpack(kind, tmp_path / str(step))
        names = [str(folder) for folder in kafka.both]
        with pytest.raises(PowerCutError):
            in_place(StoppingFiles(step), kafka, made)
        begun = (kafka.first / METADATA_FOLDER).exists()
        opened_by_kafka.append(not begun)
        if kafka_directory(UnsyncedFiles(), names[0]) is None:  # all was done, but not yet synced
            assert step == steps - 1 and kafka_directory(UnsyncedFiles(), names[1]) is None
        else:
            with pytest.raises(ForeignDirectoryError) as refused:
                refuse_foreign_directories(UnsyncedFiles(), names)
            assert ("completes it" in str(refused.value)) == begun
        in_place(StoppingFiles(), kafka, made)
        refuse_foreign_directories(UnsyncedFiles(), names)
        assert stored(kafka.first) == expected
        assert folders_of_partitions(*kafka.both) == before
        identities = [read_directory(UnsyncedFiles(), name) for name in names]
        assert len({each.directory_id for each in identities if each is not None}) == 2
        shutil.rmtree(tmp_path / str(step))
    # Until the metadata has its folder, Kafka finds nothing that it does not know.
    assert opened_by_kafka == sorted(opened_by_kafka, reverse=True) and True in opened_by_kafka
    assert False in opened_by_kafka


def test_before_kafka_is_shut_out_only_a_plain_file_is_new(tmp_path: Path) -> None:
    step = 0
    while True:
        kafka = unpack("kraft", tmp_path / str(step))
        before = contents(*kafka.both)
        with pytest.raises(PowerCutError):
            in_place(StoppingFiles(step), kafka, make_plan(*kafka.both))
        if (kafka.first / METADATA_FOLDER).exists():
            break
        after = contents(*kafka.both)
        new = {name: digest for name, digest in after.items() if name not in before}
        assert all(name.startswith("first/moldau-metadata.adopting") and new[name] != "folder" for name in new)
        assert {name: digest for name, digest in after.items() if name in before} == before
        step += 1
    assert step > 2


def test_metadata_of_another_cluster_is_not_taken_for_an_interrupted_run(tmp_path: Path) -> None:
    """What a refused start left behind before folders were looked at first."""
    kafka, other = unpack("kraft", tmp_path / "a"), unpack("zookeeper", tmp_path / "b")
    in_place(StoppingFiles(), other, make_plan(*other.both))
    shutil.copytree(other.first / METADATA_FOLDER, kafka.first / METADATA_FOLDER)
    before = contents(*kafka.both)
    with pytest.raises(CannotAdoptError, match="remove __moldau_metadata if no broker of Moldau has used it"):
        in_place(StoppingFiles(), kafka, make_plan(*kafka.both))
    assert contents(*kafka.both) == before


@pytest.mark.parametrize("targets", [["one"], ["one", "two"]])
def test_a_copy(targets: list[str], tmp_path: Path) -> None:
    kafka = unpack("kraft", tmp_path / "kafka")
    before = contents(*kafka.both)
    made = make_plan(*kafka.both)

    def copy(files: StoppingFiles, into: Path) -> list[Path]:
        names = [into / name for name in targets]
        adopt_copy(files, made, kafka.both, names, uuid4)
        return names

    whole = copy(counting := StoppingFiles(), tmp_path / "whole")
    refuse_foreign_directories(UnsyncedFiles(), [str(folder) for folder in whole])
    expected, logs = stored(whole[0]), partitions_in(*whole)
    assert logs == {name: digest for name, digest in partitions_in(*kafka.both).items() if "-delete" not in name}
    # All the first and last steps; those between copy one file after the other.
    for step in (*range(8), counting.operations // 2, *range(counting.operations - 12, counting.operations)):
        into = tmp_path / str(step)
        with pytest.raises(PowerCutError):
            copy(StoppingFiles(step), into)
        if (into / targets[0] / METADATA_FOLDER).exists() and not (into / targets[0] / UNFINISHED_COPY).exists():
            assert step == counting.operations - 1  # all was done, but not yet synced
        else:
            if (into / targets[0] / UNFINISHED_COPY).exists():
                with pytest.raises(UnfinishedCopyError):
                    refuse_foreign_directories(UnsyncedFiles(), [str(into / name) for name in targets])
            copy(StoppingFiles(), into)
        assert partitions_in(*(into / name for name in targets)) == logs
        assert stored(into / targets[0]) == expected
        shutil.rmtree(into)
    assert contents(*kafka.both) == before


def partitions_in(*folders: Path) -> dict[str, str]:
    found = {name.split("/", 1)[1]: digest for name, digest in contents(*folders).items()}
    return {
        name: digest
        for name, digest in found.items()
        if "/" in name and "__moldau" not in name and "__cluster" not in name
    }


def test_a_folder_with_something_in_it_is_no_target(tmp_path: Path) -> None:
    kafka = unpack("kraft", tmp_path / "kafka")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(CannotAdoptError, match="is not empty"):
        adopt_copy(UnsyncedFiles(), make_plan(*kafka.both), kafka.both, [tmp_path / "full"], uuid4)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
