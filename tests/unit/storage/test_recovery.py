"""Opening a log after a crash, and with damaged or missing files."""

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.storage.errors import CorruptLogError, LogIOError
from moldau.storage.files import OsFiles
from moldau.storage.log import PartitionLog
from moldau.storage.segment import Segment
from tests.fakes.lossy_files import LossyFiles, PowerCutError
from tests.support.logs import NOW, append, batch, open_log, replace_segments, settings, values_from

NewLog = Callable[..., PartitionLog]
SMALL = {"segment_bytes": 400, "index_interval_bytes": 100}


def filled(new_log: NewLog, count: int = 20, **options: object) -> PartitionLog:
    log = new_log(config=settings(**SMALL), **options)
    for number in range(count):
        append(log, b"%d" % number, epoch=number // 5, timestamp=NOW + number)
    return log


def log_files(log: PartitionLog) -> list[Path]:
    return sorted(Path(log.folder).glob("*.log"))


def expected_values(count: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(count)]


def test_everything_derived_is_made_anew(new_log):
    log = filled(new_log)
    before = {path.name: path.read_bytes() for path in Path(log.folder).iterdir()}
    log.close(clean=True)
    done = {path.name: path.read_bytes() for path in Path(log.folder).iterdir()}
    for path in Path(log.folder).iterdir():
        if path.suffix != ".log":
            path.unlink()
    again = new_log(config=settings(**SMALL))
    assert values_from(again) == expected_values(20)
    assert again.leader_epochs.entries == [(0, 0), (1, 5), (2, 10), (3, 15)]
    assert again.recovery.segments_checked == len(again.segments) and again.recovery.cut is None
    again.close(clean=True)
    assert {path.name: path.read_bytes() for path in Path(log.folder).iterdir()} == done
    assert before.keys() <= done.keys()


def test_a_torn_tail_is_cut_at_any_byte(tmp_path):
    sizes = [len(batch(b"%d" % number)) for number in range(3)]
    for cut in range(sum(sizes) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        log = open_log(str(folder))
        for number in range(3):
            append(log, b"%d" % number)
        path = log.segments.active.file.path
        log.close(clean=False)
        os.truncate(path, cut)
        whole = next(n for n in range(3, -1, -1) if sum(sizes[:n]) <= cut)
        again = open_log(str(folder))
        assert values_from(again) == expected_values(whole)
        assert os.path.getsize(path) == sum(sizes[:whole])
        torn = cut - sum(sizes[:whole])
        assert (again.recovery.cut is None) == (torn == 0)
        if torn:
            assert again.recovery.cut.bytes_lost == torn and again.recovery.cut.offset == whole
        append(again, b"next")
        assert values_from(again)[-1] == (whole, b"next")
        again.close(clean=False)


def test_a_flipped_bit_cuts_the_log_and_the_report_says_what_was_lost(new_log):
    log = filled(new_log)
    path = log_files(log)[1]
    base = int(path.stem)
    log.close(clean=False)
    data = bytearray(path.read_bytes())
    sizes = [len(batch(b"%d" % number)) for number in range(20)]
    data[sizes[base] + 65] ^= 1
    path.write_bytes(data)
    again = new_log(config=settings(**SMALL))
    assert values_from(again) == expected_values(base + 1)
    cut = again.recovery.cut
    assert (cut.path, cut.offset, cut.position) == (str(path), base + 1, sizes[base])
    assert cut.valid_batches_lost == 20 - (base + 2)
    assert cut.bytes_lost == sum(sizes[base + 1 :])
    assert str(path) in str(cut) and "valid batches" in str(cut)
    assert again.log_end_offset == base + 1 and len(log_files(log)) == 2


def test_damage_below_the_recovery_point_is_not_served(new_log):
    log = filled(new_log, 19)
    log.flush()
    append(log, b"19")
    recovery_point = log.recovery_point
    path = Path(log.segments.at(recovery_point - 1).file.path)
    log.close(clean=False)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError) as error:
        new_log(config=settings(**SMALL), recovery_point=recovery_point)
    assert error.value.path == str(path) and error.value.position == 0
    # With the recovery point given up, which is what a repair does, the rest is saved.
    repaired = new_log(config=settings(**SMALL), recovery_point=0)
    assert values_from(repaired) == expected_values(int(path.stem))


def test_segments_below_the_recovery_point_are_not_read(new_log):
    log = filled(new_log)
    log.flush(12)
    log.close(clean=False)
    seen = []
    again = new_log(config=settings(**SMALL), recovery_point=12, progress=lambda *done: seen.append(done))
    checked = [segment for segment in again.segments if segment.base_offset > 12] + [again.segments.at(12)]
    assert again.recovery.segments_checked == len(checked) == len(seen) < len(again.segments)
    assert seen[-1] == (again.recovery.bytes_checked,) * 2
    assert again.recovery_point == 12 and again.log_end_offset == 20
    assert values_from(again) == expected_values(20)


def test_a_lost_segment_in_the_middle_ends_the_log(new_log):
    log = filled(new_log)
    paths = log_files(log)
    log.close(clean=False)
    paths[2].unlink()
    again = new_log(config=settings(**SMALL))
    assert values_from(again) == expected_values(int(paths[2].stem))
    assert "missing" in again.recovery.cut.reason


def test_a_segment_that_lost_its_end_hides_the_next_ones(new_log):
    log = filled(new_log)
    path = log_files(log)[1]
    log.close(clean=False)
    os.truncate(path, len(batch(b"10")))
    again = new_log(config=settings(**SMALL))
    assert values_from(again) == expected_values(int(path.stem) + 1)
    append(again, b"next")
    assert values_from(again)[-1] == (int(path.stem) + 1, b"next")


def test_a_compacted_log_may_have_gaps(new_log):
    config = settings(segment_bytes=100, cleanup_policy="compact")
    log = new_log(config=config)
    for base in (0, 10, 20):
        log.append_as_follower(batch(b"%d" % base, base_offset=base, leader_epoch=0))
    log.close(clean=False)
    again = new_log(config=config)
    assert [offset for offset, _ in values_from(again)] == [0, 10, 20] and again.recovery.cut is None


def test_gaps_that_a_leader_had_are_kept_by_its_followers(new_log):
    """Whether or not the topic is compacted, or was, they lie within a segment and not between two."""
    config = settings(segment_bytes=100)
    log = new_log(config=config)
    for base in (0, 10, 20, 2**32):
        log.append_as_follower(batch(b"%d" % base, base_offset=base, leader_epoch=0))
    assert log.segments.bases == [0, 1, 11, 2**32]
    log.flush(21)
    log.close(clean=False)
    again = new_log(config=config, recovery_point=5)
    assert [offset for offset, _ in values_from(again)][:3] == [0, 10, 20]
    assert [offset for offset, _ in values_from(again, 5)][:2] == [10, 20]


@pytest.mark.parametrize("clean", [True, False])
def test_missing_or_odd_indexes_of_sealed_segments_are_rebuilt(new_log, clean):
    log = filled(new_log, 40)
    log.close(clean=True)
    whole = {path.name: path.read_bytes() for path in Path(log.folder).glob("*index")}
    names = sorted(whole)
    os.unlink(f"{log.folder}/{names[0]}")
    os.truncate(f"{log.folder}/{names[3]}", 7)
    Path(log.folder, "00000000000000000099.index").write_bytes(b"orphan")
    again = new_log(config=settings(**SMALL), clean_shutdown=clean, recovery_point=40)
    assert len(again.recovery.indexes_rebuilt) == 2
    assert values_from(again) == expected_values(40)
    again.close(clean=True)
    assert {path.name: path.read_bytes() for path in Path(log.folder).glob("*index")} == whole


def test_a_senseless_index_of_the_active_segment_is_rebuilt(new_log):
    log = filled(new_log, 3)
    log.close(clean=True)
    for suffix, entry in ((".index", bytes(16)), (".timeindex", bytes(24)), (".index", b"\0\0\0\1\7\0\0\0")):
        path = Path(log.folder, "0" * 20 + suffix)
        path.write_bytes(entry)
        again = new_log(config=settings(**SMALL), clean_shutdown=True)
        assert again.recovery.indexes_rebuilt
        assert values_from(again) == expected_values(3)
        again.close(clean=True)


def test_an_unreadable_epoch_file_counts_as_none(new_log):
    log = filled(new_log)
    log.close(clean=True)
    Path(log.leader_epochs.path).write_bytes(b"0\n2\n1 x\n")
    again = new_log(config=settings(**SMALL), clean_shutdown=True)
    assert again.leader_epochs.entries == [] and values_from(again) == expected_values(20)
    again.close(clean=False)
    assert new_log(config=settings(**SMALL)).leader_epochs.latest == 3


def test_epochs_that_no_batch_has_are_forgotten(new_log):
    log = filled(new_log, 3)
    log.leader_epochs.assign(9, 3)
    log.close(clean=True)
    assert new_log(config=settings(**SMALL), clean_shutdown=True).leader_epochs.latest == 0


def test_a_log_whose_start_is_gone_begins_there_anew(new_log):
    log = filled(new_log, 3)
    log.close(clean=True)
    again = new_log(clean_shutdown=True, log_start_offset=10)
    assert (again.log_start_offset, again.log_end_offset) == (10, 10) and again.segments.bases == [10]


def test_the_log_start_offset_is_kept_above_the_first_segment(new_log):
    log = filled(new_log, 20)
    log.close(clean=False)
    again = new_log(config=settings(**SMALL), log_start_offset=7)
    assert again.log_start_offset == 7 and values_from(again, 7) == expected_values(20)[7:]
    assert again.leader_epochs.earliest == (1, 7)


# -- interrupted cleaning and deletion --------------------------------------------------------------------------------


def rename(directory: str, base: int, old: str, new: str) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        path = f"{directory}/{base:020d}{suffix}"
        os.rename(path + old, path + new)


def cleaned_copy(log: PartitionLog, base: int, keep: int) -> None:
    """A cleaner's new segment that holds one record of an old one."""
    segment = Segment.create(OsFiles(), log.folder, base, created_ms=NOW, suffix=".cleaned")
    data = batch(b"kept", base_offset=keep, leader_epoch=0)
    segment.write([data], len(data))
    segment.account(keep, len(data), NOW, 0)
    segment.seal()
    segment.close()


@pytest.mark.parametrize("clean", [True, False])
def test_files_marked_for_deletion_and_unfinished_cleaning_go(new_log, clean):
    log = filled(new_log)
    cleaned_copy(log, 0, 2)
    log.close(clean=True)
    Path(log.folder, "00000000000000000077.log.deleted").write_bytes(b"x")
    again = new_log(config=settings(**SMALL), clean_shutdown=clean)
    assert values_from(again) == expected_values(20)
    assert not [name for name in os.listdir(log.folder) if name.endswith((".cleaned", ".deleted"))]


def test_a_swap_that_was_begun_is_finished(new_log):
    config = settings(**SMALL, cleanup_policy="compact")
    log = filled(new_log)
    bases = log.segments.bases
    cleaned_copy(log, 0, bases[2] - 1)
    rename(log.folder, 0, ".cleaned", ".swap")
    log.close(clean=True)
    again = new_log(config=config, clean_shutdown=True)
    assert again.segments.bases == [0, *bases[2:]]
    assert values_from(again) == [(bases[2] - 1, b"kept"), *expected_values(20)[bases[2] :]]


def test_a_swap_beside_unfinished_cleaning_is_rolled_back(new_log):
    log = filled(new_log)
    bases = log.segments.bases
    cleaned_copy(log, 0, 0)
    cleaned_copy(log, bases[1], bases[1])
    rename(log.folder, bases[1], ".cleaned", ".swap")
    log.close(clean=True)
    again = new_log(config=settings(**SMALL), clean_shutdown=True)
    assert values_from(again) == expected_values(20)


def test_replacing_segments_survives_a_stop_at_every_step():
    """Old or new, never a mixture, whenever the power fails."""
    config = settings(**SMALL, cleanup_policy="compact")
    old = [value for _, value in expected_values(20)]
    for stop in range(200):
        files = LossyFiles()
        files.make_directory("/d")
        log = open_log("/d", files=files, config=config)
        for value in old:
            append(log, value)
        log.flush()
        bases = log.segments.bases
        segment = Segment.create(files, "/d", 0, created_ms=NOW, suffix=".cleaned")
        data = batch(b"kept", base_offset=bases[2] - 1, leader_epoch=0)
        segment.write([data], len(data))
        segment.account(bases[2] - 1, len(data), NOW, 0)
        segment.seal()
        for path in segment.paths()[:3]:
            fd = files.open(path)
            files.fdatasync(fd)
            files.close(fd)
        files.stop_after(stop)
        finished = False
        with contextlib.suppress(PowerCutError):
            replace_segments(log, files, [segment], [log.segments[0], log.segments[1]])
            finished = True
        files.crash(random.Random(stop))
        again = open_log("/d", files=files, config=config, recovery_point=20)
        found = [value for _, value in values_from(again)]
        assert found in (old, [b"kept", *old[bases[2] :]])
        if finished:
            assert found[0] == b"kept"
            return
    raise AssertionError("never finished")


def test_an_unreadable_folder_is_a_storage_error(tmp_path):
    with pytest.raises(LogIOError):
        open_log(str(tmp_path / "missing"))
