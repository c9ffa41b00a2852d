"""Connections that outlive a task: a Python worker runs one task after the other, and each would have to dial anew.

A `Cluster` is borrowed by one thread at a time and given back with nothing under way. What a parent process left behind
by forking is not touched.
"""

from __future__ import annotations

import atexit
import os
from threading import Lock
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings

MOST_IDLE: Final = 4

_lock: Final = Lock()
_idle: Final[dict[tuple[int, ClientSettings], list[Cluster]]] = {}


def borrow(settings: ClientSettings) -> Cluster:
    with _lock:
        waiting = _idle.get((os.getpid(), settings))
        if waiting:
            return waiting.pop()
    return Cluster(settings)


def give_back(cluster: Cluster) -> None:
    with _lock:
        waiting = _idle.setdefault((os.getpid(), cluster.settings), [])
        if len(waiting) < MOST_IDLE:
            waiting.append(cluster)
            return
    cluster.close()


@atexit.register
def close_idle() -> None:
    with _lock:
        mine = [place for place in _idle if place[0] == os.getpid()]
        for cluster in [cluster for place in mine for cluster in _idle.pop(place)]:
            cluster.close()
