"""The text files of a log directory: Kafka's own bytes, round trips, and what is said about a broken one."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.storage import checkpoints
from moldau.storage.checkpoints import CorruptFileError, DirectoryInUseError, DirectoryProperties
from moldau.storage.files import OsFiles
from moldau.types.ids import TopicPartition
from moldau.types.uuid_text import decode_uuid, encode_uuid, uuid_of_halves

FILES = OsFiles()
TOPIC_NAMES = st.text("abcXYZ019._-", min_size=1, max_size=20)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, TOPIC_NAMES, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=20
)


@given(OFFSETS)
def test_offsets_come_back(offsets: dict[TopicPartition, int]) -> None:
    assert checkpoints.parse_offsets(checkpoints.format_offsets(offsets), "f") == offsets


def test_offsets_are_written_as_kafka_writes_them() -> None:
    data = checkpoints.format_offsets({TopicPartition("orders", 0): 12, TopicPartition("a.b_c-d", 17): 9})
    assert data == b"0\n2\norders 0 12\na.b_c-d 17 9\n"


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n0\n"])
def test_a_file_without_entries_is_empty(data: bytes) -> None:
    assert checkpoints.parse_offsets(data, "f") == {}


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (b"1\n0\n", 1, "version 1, expected 0"),
        (b"x\n", 1, "expected a number, found 'x'"),
        (b"0\nx\n", 2, "expected a number"),
        (b"0\n2\na 0 1\n", 2, "says 2 entries, the file holds 1"),
        (b"0\n1\na 0 1\nb 0 1\n", 2, "says 1 entries, the file holds 2"),
        (b"0\n1\na 0\n", 3, "expected topic, partition and offset, found 'a 0'"),
        (b"0\n2\na 0 1\nb 0 x\n", 4, "expected a number, found 'x'"),
        (b"0\n1\n\xff\xfe 0 1\n", 3, "not UTF-8"),
        (b"\0\0\0\0", 1, "expected a number"),
    ],
)
def test_a_corrupt_checkpoint_names_file_and_line(data: bytes, line: int, says: str) -> None:
    with pytest.raises(CorruptFileError) as caught:
        checkpoints.parse_offsets(data, "dir/recovery-point-offset-checkpoint")
    assert caught.value.line == line
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"dir/recovery-point-offset-checkpoint, line {line}: ")


def test_offsets_are_replaced_and_read_from_disk(tmp_path: Path) -> None:
    assert checkpoints.read_offsets(FILES, str(tmp_path), checkpoints.RECOVERY_POINTS) == {}
    for offset in (1, 2):
        checkpoints.write_offsets(FILES, str(tmp_path), checkpoints.RECOVERY_POINTS, {TopicPartition("t", 0): offset})
    assert checkpoints.read_offsets(FILES, str(tmp_path), checkpoints.RECOVERY_POINTS) == {TopicPartition("t", 0): 2}
    assert [path.name for path in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]


def test_directory_properties_as_apache_kafka_writes_them() -> None:
    data = (
        b"#\n#Mon Nov 16 09:12:55 UTC 2026\nnode.id=1\ndirectory.id=VDcpY7yVxpdmhIabffcbmg\nversion=1\n"
        b"cluster.id=JOhTob0ZQFSbrY2Cb4Eb7w\n"
    )
    found = checkpoints.parse_directory(data, "meta.properties")
    assert (found.cluster_id, found.node_id) == ("JOhTob0ZQFSbrY2Cb4Eb7w", 1)
    assert encode_uuid(found.directory_id) == "VDcpY7yVxpdmhIabffcbmg"
    assert checkpoints.parse_directory(checkpoints.format_directory(found), "f") == found


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"version=0\n", "version 0, expected 1"),
        (b"version=1\nnode.id=1\ndirectory.id=VDcpY7yVxpdmhIabffcbmg\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=c\nnode.id=one\ndirectory.id=VDcpY7yVxpdmhIabffcbmg\n", "line 3"),
        (b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n", "line 4"),
        (b"version=1\nnonsense\n", "line 2"),
    ],
)
def test_broken_directory_properties(data: bytes, says: str) -> None:
    with pytest.raises(CorruptFileError, match=r"^meta\.properties, line "):
        checkpoints.parse_directory(data, "meta.properties")
    with pytest.raises(CorruptFileError, match=says):
        checkpoints.parse_directory(data, "meta.properties")


def test_directory_properties_on_disk(tmp_path: Path) -> None:
    properties = DirectoryProperties("cluster", 3, UUID(int=2**127 + 5))
    assert checkpoints.read_directory(FILES, str(tmp_path)) is None
    checkpoints.write_directory(FILES, str(tmp_path), properties)
    assert checkpoints.read_directory(FILES, str(tmp_path)) == properties


@given(st.uuids())
def test_uuids_come_back(value: UUID) -> None:
    text = encode_uuid(value)
    assert len(text) == 22
    assert decode_uuid(text) == value


@pytest.mark.parametrize(
    "text", ["", "A", "VDcpY7yVxpdmhIabffcbm", "VDcpY7yVxpdmhIabffcbmgAA", "VDcp 7yVxpdmhIabffcbmg", "ä" * 22]
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode_uuid(text)


def test_partition_metadata(tmp_path: Path) -> None:
    topic_id = decode_uuid("VDcpY7yVxpdmhIabffcbmg")
    assert checkpoints.read_topic_id(FILES, str(tmp_path)) is None
    checkpoints.write_topic_id(FILES, str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_bytes() == b"version: 0\ntopic_id: VDcpY7yVxpdmhIabffcbmg"
    assert checkpoints.read_topic_id(FILES, str(tmp_path)) == topic_id


@pytest.mark.parametrize(
    "data", [b"", b"version: 0\n", b"version: 9\ntopic_id: x", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"]
)
def test_broken_partition_metadata(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        checkpoints.parse_partition(data, "f")


def test_the_clean_shutdown_marker_counts_once(tmp_path: Path) -> None:
    assert checkpoints.take_clean_shutdown(FILES, str(tmp_path)) is None
    checkpoints.write_clean_shutdown(FILES, str(tmp_path), 7)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":7}'
    assert checkpoints.take_clean_shutdown(FILES, str(tmp_path)) == 7
    assert checkpoints.take_clean_shutdown(FILES, str(tmp_path)) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"brokerEpoch":null}', b"\xff"])
def test_an_old_marker_without_epoch_is_still_a_marker(data: bytes, tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(data)
    assert checkpoints.take_clean_shutdown(FILES, str(tmp_path)) == checkpoints.UNKNOWN_BROKER_EPOCH


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    held = checkpoints.lock_directory(FILES, str(tmp_path))
    with pytest.raises(DirectoryInUseError, match=f"Failed to acquire lock on file .lock in {tmp_path}"):
        checkpoints.lock_directory(FILES, str(tmp_path))
    FILES.close(held)
    FILES.close(checkpoints.lock_directory(FILES, str(tmp_path)))


def test_ids_of_two_halves() -> None:
    """Signed, as clients in Java and C hand them out; the text's alphabet is that of addresses."""
    found = uuid_of_halves(-1, -3)
    assert found == UUID("ffffffff-ffff-ffff-ffff-fffffffffffd")
    assert encode_uuid(found) == f"{'_' * 21}Q"
    assert decode_uuid(encode_uuid(found)) == found
