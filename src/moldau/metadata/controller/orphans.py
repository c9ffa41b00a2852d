"""Pieces of topics that are no topic: a creation or deletion that was cut into several commits and broke off.

A creation writes the topic's own entry last, a deletion removes it first; pieces without it belong to nothing, and
pieces behind the number of partitions to a growth that broke off.
"""

from __future__ import annotations

from moldau.metadata import paths
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Delete
from moldau.work.slices import Work, pauses


def sweeping(image: ClusterImage) -> Work[list[Delete]]:
    """Removes what nobody will complete; to be asked only where no creation is under way."""
    paused = pauses()
    found: list[Delete] = []
    for name in sorted(image.loose):
        pieces = image.loose[name]
        if pieces.entry is not None:
            # The topic's entry comes last: with it here, pieces are missing that others may know of. Not ours to judge.
            continue
        for index in sorted(pieces.partitions):
            if next(paused):
                yield
            found.append(Delete(paths.partition(name, index), pieces.partitions[index].version))
        if pieces.settings.version != ABSENT and name not in image.topics:
            found.append(Delete(paths.topic_config(name), pieces.settings.version))
    return found
