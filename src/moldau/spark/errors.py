"""What a Spark query is told when it cannot go on; the message names the cause and what can be done."""

from __future__ import annotations


class SourceError(Exception):
    """Base of the data source's errors."""


class DataLoss(SourceError):
    """Records that were to be read are gone; raised unless `failOnDataLoss` is false."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Records may be lost; failOnDataLoss=false goes on with what is there")
        self.what = what


class TopicMissing(SourceError):
    """A topic that is to be read does not exist."""


class ClusterUnavailable(SourceError):
    """No broker answered."""


class ForeignCheckpoint(SourceError):
    """The checkpoint's offsets are not those of this query."""
