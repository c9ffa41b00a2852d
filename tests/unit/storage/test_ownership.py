"""Whose a folder is, found out without a trace."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from moldau.storage.checkpoints import DirectoryProperties, write_directory
from moldau.storage.files import OsFiles
from moldau.storage.ownership import METADATA_FOLDER, ForeignDirectoryError, kafka_directory, refuse_foreign_directories
from tests.support.kafka_folders import contents, unpack


def refusal(*folders: Path) -> str:
    with pytest.raises(ForeignDirectoryError) as refused:
        refuse_foreign_directories(OsFiles(), [str(folder) for folder in folders])
    return str(refused.value)


@pytest.mark.parametrize("kind", ["kraft", "zookeeper"])
def test_a_folder_of_apache_kafka_is_refused_and_not_touched(kind: str, tmp_path: Path) -> None:
    kafka = unpack(kind, tmp_path)
    before = contents(tmp_path)
    found = kafka_directory(OsFiles(), str(kafka.first))
    assert found is not None and found.node_id == "1" and found.of_zookeeper == (kind == "zookeeper")
    said = refusal(*kafka.both)
    assert said.startswith(f"{kafka.first}: this log directory belongs to Apache Kafka, cluster {found.cluster_id}. ")
    assert f"`moldau broker adopt {kafka.first} --dry-run`" in said
    assert contents(tmp_path) == before


def test_it_is_seen_behind_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    kafka = unpack("kraft", tmp_path)
    assert str(kafka.second) in refusal(tmp_path / "new", kafka.second)
    assert not (tmp_path / "new").exists()


def test_an_interrupted_adoption_is_told_how_it_goes_on(tmp_path: Path) -> None:
    kafka = unpack("kraft", tmp_path)
    (kafka.first / METADATA_FOLDER).mkdir()
    assert f"`moldau broker adopt {kafka.first} --in-place` completes it" in refusal(*kafka.both)


def test_folders_of_our_own_and_empty_ones_are_not_refused(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    write_directory(OsFiles(), str(ours), DirectoryProperties("a-cluster", 1, UUID(int=7)))
    refuse_foreign_directories(OsFiles(), [str(ours), str(tmp_path), str(tmp_path / "none")])
