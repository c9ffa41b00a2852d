"""What counts as data loss in a split, in one set of words, and what `failOnDataLoss` makes of it.

Both ways to read a partition, over the wire and through librdkafka, judge by these rules.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from moldau.spark.errors import DataLoss, SourceError
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split

LOG: Final = logging.getLogger("moldau.spark")


@dataclass(frozen=True, slots=True)
class LossPolicy:
    split: Split
    settings: ReadSettings

    @property
    def name(self) -> str:
        return f"{self.split.topic}-{self.split.partition}"

    def lost(self, problem: str) -> None:
        if self.settings.fail_on_data_loss:
            raise DataLoss(problem)
        LOG.warning("%s; going on with what is there, since failOnDataLoss is false", problem)

    def topic_gone(self, offset: int) -> None:
        self.lost(f"{self.name}: the topic does not exist any more, offset {offset} was to be read")

    def outside(self, offset: int, first: int, last: int) -> int | None:
        """For an offset outside of the log `first` to `last`: where to go on, or None if nothing is left."""
        if offset < first:
            goes_on = min(first, self.split.end)
            self.lost(f"{self.name}: offsets {offset} to {goes_on - 1} are gone, the log begins at {first}")
            return goes_on
        self.lost(f"{self.name}: offset {offset} is wanted, but the log ends at {last}")
        return None

    @property
    def recreated(self) -> str:
        return f"{self.name}: the topic was deleted and created again since this read was planned"

    def short(self, reach: int) -> str:
        return f"{self.name}: the log ends at {reach}, before the wanted end {self.split.end}"

    def held_back(self, stable: int, last: int) -> str | None:
        """Why records that are there are not to be read yet."""
        if not self.settings.committed or last < self.split.end:
            return None
        return (
            f"a transaction that is still open holds back the offsets from {stable} on; "
            "isolation.level=read_uncommitted reads them"
        )

    def said(self, offset: int, problem: str, broker: str = "") -> str:
        return f"cannot read {self.name} at offset {offset}{broker}: {problem}"

    def waited_in_vain(self, said: str) -> SourceError:
        return SourceError(f"{said}; tried for {self.settings.timeout_seconds:g} s (kafkaConsumer.pollTimeoutMs)")
