"""How topics of one cluster are called in another, as MirrorMaker 2's replication policies say. Pure.

`DefaultReplicationPolicy` puts the source's alias before the name (`us.orders`), so that a name tells where records
come from and no record can travel in a circle. `IdentityReplicationPolicy` keeps names, apart from heartbeats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"
DEFAULT: Final = "DefaultReplicationPolicy"
IDENTITY: Final = "IdentityReplicationPolicy"
CLASSES: Final = {f"org.apache.kafka.connect.mirror.{name}": name for name in (DEFAULT, IDENTITY)}


@dataclass(frozen=True, slots=True)
class Policy:
    kind: str = DEFAULT
    separator: str = "."
    internal_separator: str = "."
    source: str | None = None
    """The source's alias, which an identity policy cannot read off a name."""

    @property
    def keeps_names(self) -> bool:
        return self.kind == IDENTITY

    def remote(self, source: str, topic: str) -> str:
        """The name in the target of a topic of the source."""
        if self.keeps_names and not looks_like_heartbeats(topic):
            return topic
        return f"{source}{self.separator}{topic}"

    def origin(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was copied from; None if it was not copied."""
        if self.keeps_names and not looks_like_heartbeats(topic):
            return self.source
        head, separator, tail = topic.partition(self.separator)
        return head if separator and tail else None

    def upstream(self, topic: str) -> str | None:
        """Its name in the cluster that it was copied from."""
        if self.keeps_names and not looks_like_heartbeats(topic):
            return topic
        origin = self.origin(topic)
        return None if origin is None else topic[len(origin) + len(self.separator) :]

    def original(self, topic: str) -> str:
        """Its name where it came into being, however many copies ago."""
        upstream = self.upstream(topic)
        return topic if upstream is None or upstream == topic else self.original(upstream)

    def comes_from(self, topic: str, cluster: str) -> bool:
        """Whether the topic has been in that cluster: copying it there would be a circle."""
        origin = self.origin(topic)
        if origin is None or origin == cluster:
            return origin is not None
        upstream = self.upstream(topic)
        return upstream is not None and upstream != topic and self.comes_from(upstream, cluster)

    def is_heartbeats(self, topic: str) -> bool:
        return self.original(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """Topics that clusters, Connect and mirrors keep for themselves."""
        return topic.startswith(("__", ".")) or topic.endswith(
            ("-internal", ".internal", f"{self.internal_separator}internal")
        )

    def offset_syncs(self, cluster: str) -> str:
        return f"mm2-offset-syncs{self.internal_separator}{cluster}{self.internal_separator}internal"

    def checkpoints(self, source: str) -> str:
        return f"{source}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def positions(self, source: str) -> str:
        """Where Connect's workers keep the offsets of MirrorMaker 2."""
        return f"mm2-offsets.{source}.internal"


def looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)
