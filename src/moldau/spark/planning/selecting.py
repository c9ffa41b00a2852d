"""Which partitions a query reads, from its options and the cluster's metadata; and what happens to lost data."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.spark.errors import DataLoss, TopicMissing
from moldau.spark.option_table import did_you_mean
from moldau.spark.planning.catalog import Catalog, TopicView
from moldau.spark.planning.options import Selection
from moldau.spark.planning.resolve import Lost, names
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import OWN_PREFIX

log = logging.getLogger(__name__)


def selected_topics(catalog: Catalog, selection: Selection) -> dict[str, TopicView]:
    """The topics that are there; those that are missing are the caller's business."""
    found = catalog.topics(selection.names)
    return {
        name: view
        for name, view in sorted(found.items())
        if selection.reads_topic(name) and not (selection.pattern is not None and is_internal(name, view))
    }


def is_internal(name: str, view: TopicView) -> bool:
    """Kafka's own topics, and those in which our sinks keep their markers: no pattern means them."""
    return view.is_internal or name.startswith(OWN_PREFIX)


def selected_partitions(topics: Mapping[str, TopicView], selection: Selection) -> list[TopicPartition]:
    places = [TopicPartition(name, partition) for name, view in topics.items() for partition in view.leaders]
    return sorted(place for place in places if selection.reads(place))


def check_all_there(catalog: Catalog, topics: Mapping[str, TopicView], selection: Selection) -> None:
    """At the start of a query everything that is named has to exist."""
    missing = sorted((selection.names or frozenset()) - set(topics))
    if missing:
        others = [name for name, view in catalog.topics(None).items() if not is_internal(name, view)]
        raise TopicMissing(f"topic {missing[0]!r} does not exist{did_you_mean(missing[0], others)}")
    partitions = set(selected_partitions(topics, selection))
    absent = [place for place in selection.partitions if place not in partitions]
    if absent:
        raise TopicMissing(f"assign names {names(absent)}, which does not exist")


def loss_handler(fails: bool) -> Lost:
    """Raises, or warns once for each message."""
    told: set[str] = set()

    def lost(what: str) -> None:
        if fails:
            raise DataLoss(what)
        if what not in told:
            told.add(what)
            log.warning("data may be lost: %s", what)

    return lost
