"""A partition's folder to be compacted without a log around it: segments are written, cleaned and read as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from moldau.storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult, run_job
from moldau.storage.compaction.plan import SegmentShape
from moldau.storage.compaction.rewrite import LastRecord
from moldau.storage.files import OsFiles
from moldau.storage.layout import CLEANED_SUFFIX, SEGMENT_SUFFIXES, offset_name
from moldau.storage.segment import Segment
from moldau.storage.txn_index import AbortedTxn, TxnIndex
from moldau.wire.records import Batch, Record, iter_batches, iter_records


class UnsyncedFiles(OsFiles):
    """What is on disk after a power cut is not asked here, and syncing takes most of the time."""

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        pass

    def sync_directory(self, path: str) -> None:
        pass


FILES = UnsyncedFiles()
DEFAULTS = {
    "delete_retention_ms": 1000,
    "segment_bytes": 1 << 20,
    "segment_index_bytes": 1 << 20,
    "index_interval_bytes": 64,
    "map_bytes": 1 << 20,
}


class CompactedFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last_groups: list[CleanedGroup] = []

    def add_segment(self, batches: Sequence[bytes], base_offset: int | None = None) -> None:
        parsed = [next(iter_batches(batch)).header for batch in batches]
        base = parsed[0].base_offset if base_offset is None else base_offset
        segment = Segment.create(FILES, str(self.folder), base, created_ms=0)
        segment.write(batches, sum(map(len, batches)))
        for header in parsed:
            segment.account(header.last_offset, header.size, header.max_timestamp, 64)
        segment.seal()
        segment.close()

    def set_aborted(self, base_offset: int, aborted: Iterable[AbortedTxn]) -> None:
        index = TxnIndex(FILES, str(self.folder / offset_name(base_offset, ".txnindex")))
        for txn in aborted:
            index.append(txn)
        index.persist()

    @property
    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.log"))

    def aborted(self) -> tuple[AbortedTxn, ...]:
        indexes = (TxnIndex(FILES, str(path)) for path in sorted(self.folder.glob("*.txnindex")))
        return tuple(txn for index in indexes for txn in index.entries)

    def job(self, end: int, *, dirty: int = 0, now_ms: int = 0, **changes: object) -> CleaningJob:
        segments = tuple(
            SegmentShape(base, (self.folder / offset_name(base, ".log")).stat().st_size)
            for base in self.bases
            if base < end
        )
        return CleaningJob(
            folder=str(self.folder),
            segments=segments,
            first_dirty_offset=dirty,
            first_uncleanable_offset=end,
            now_ms=now_ms,
            aborted=self.aborted(),
            **{**DEFAULTS, **changes},  # type: ignore[arg-type]
        )

    def clean(
        self,
        end: int,
        *,
        dirty: int = 0,
        now_ms: int = 0,
        last_records: Mapping[int, LastRecord] | None = None,
        **changes: object,
    ) -> CleaningResult:
        live = tuple((pid, last.last_data_offset, last.producer_epoch) for pid, last in (last_records or {}).items())
        job = self.job(end, dirty=dirty, now_ms=now_ms, last_records=live, **changes)
        self.last_groups = []
        for event in run_job(FILES, CleaningJob.from_json(job.to_json()), lambda _: None):
            if isinstance(event, CleaningResult):
                return event
            self.last_groups.append(event)
            self._swap(event)
        raise AssertionError("a job ends with its result")

    def _swap(self, group: CleanedGroup) -> None:
        for base in group.sources:
            for suffix in SEGMENT_SUFFIXES:
                (self.folder / offset_name(base, suffix)).unlink(missing_ok=True)
        for suffix in SEGMENT_SUFFIXES:
            cleaned = self.folder / offset_name(group.base_offset, suffix + CLEANED_SUFFIX)
            if cleaned.exists():
                cleaned.rename(self.folder / offset_name(group.base_offset, suffix))

    def batches(self, below: int | None = None) -> list[Batch]:
        contents = ((self.folder / offset_name(base, ".log")).read_bytes() for base in self.bases)
        found = [batch for content in contents for batch in iter_batches(content)]
        return [batch for batch in found if below is None or batch.header.base_offset < below]

    def records(self, below: int | None = None) -> list[Record]:
        """Without control records."""
        return [
            record for batch in self.batches(below) if not batch.header.is_control for record in iter_records(batch)
        ]
