"""What an application is told of partitions that come and go."""

from __future__ import annotations

from collections.abc import Collection

from moldau.clients.records import TopicPartition


class RebalanceListener:
    """Passed to `subscribe`. Its methods are called within `poll`, in its thread; override what you need.

    In all of them the consumer may be used: `commit`, `position`, and in `on_partitions_assigned` also `seek`.
    """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """After the group decided, before the first record of these partitions."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """After the last record of these partitions, before somebody else gets them: the place to commit."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """They were taken away without a word, and may be somebody else's already; by default as if revoked."""
        self.on_partitions_revoked(partitions)
