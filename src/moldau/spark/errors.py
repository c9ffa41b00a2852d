"""What a Spark query is told when it cannot go on; the message names the cause and what can be done."""

from __future__ import annotations

from collections.abc import Iterable


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


def no_broker_answers(addresses: Iterable[object], cause: object, seconds: float) -> ClusterUnavailable:
    servers = ", ".join(str(address) for address in addresses)
    return ClusterUnavailable(
        f"no answer from the cluster of kafka.bootstrap.servers ({servers}), tried for {seconds:g} s: {cause}. Check "
        "that it runs and that its listeners can be reached from here, then start again: a stream goes on from its "
        "checkpoint. kafka.default.api.timeout.ms says how long a query waits"
    )


def out_of_patience(said: str, seconds: float) -> ClusterUnavailable:
    return ClusterUnavailable(f"{said}; tried for {seconds:g} s (kafka.default.api.timeout.ms)")


class ForeignCheckpoint(SourceError):
    """The checkpoint's offsets are not those of this query."""
