"""Tells a source what is committed, every few seconds, in a thread of its own: it may take its time, or fail, while the
tasks go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from moldau.connect.interface import SourceConnector, Stream, StreamsChanged
from moldau.connect.task import Job
from moldau.connect.worker.positions import PositionTable, canonical

log = logging.getLogger(__name__)
SECONDS: Final = 5.0


def wants_to_know(job: Job) -> bool:
    return issubclass(job.connector, SourceConnector) and job.connector.committed is not SourceConnector.committed


class Confirming:
    def __init__(self, job: Job, streams: Sequence[Stream], table: PositionTable, seconds: float = SECONDS) -> None:
        self._job = job
        self._streams = streams
        self._table = table
        self._seconds = seconds
        self._stopping = threading.Event()
        self.streams_changed = False
        self._thread = threading.Thread(target=self._run, name=f"confirming-{job.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait: what is told late is true as well."""
        self._stopping.set()

    def _run(self) -> None:
        source: SourceConnector | None = None
        while not self._stopping.wait(self._seconds):
            try:
                if source is None:
                    source = self._job.source()
                found = self._table.known(self._job.offsets_name)
                source.committed([(each, found.get(canonical(each.partition))) for each in self._streams])
            except StreamsChanged as reason:
                log.info("%s: %s", self._job.name, reason)
                self.streams_changed = True
                break
            except Exception as error:
                log.warning("%s could not be told what is committed: %s", self._job.name, error)
                closed(source)
                source = None
        closed(source)


def closed(source: SourceConnector | None) -> None:
    if source is not None:
        try:
            source.close()
        except Exception as error:
            log.warning("closing: %s", error)
