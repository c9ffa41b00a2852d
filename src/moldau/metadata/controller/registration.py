"""A broker's own entry: written by itself at each start, and fenced until the controller takes it in (`fencing`)."""

from __future__ import annotations

from moldau.metadata import codec, paths
from moldau.metadata.codec import BrokerEntry
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.features import refuse_unsupported
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Put


def register_broker(image: ClusterImage, broker_id: int, entry: BrokerEntry) -> Decision[None]:
    """Replaces the entry of an earlier start. Raises UNSUPPORTED_VERSION if the cluster has gone on to what the
    broker's release does not know.

    That no other one lives under this id is made sure before, by its presence (`MetadataStore.announce`); that its log
    directories are this cluster's, when they are opened.
    """
    refuse_unsupported(entry.features, image.features.levels)
    present = image.brokers.get(broker_id)
    version = ABSENT if present is None else present.version
    return Decision([Put(paths.broker(broker_id), codec.encode_broker(entry), version)], None)
