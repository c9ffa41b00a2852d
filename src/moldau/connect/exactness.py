"""Why a source's records are neither lost nor doubled, whatever dies: who may write, and where it goes on.

Records and the position behind them are written in one transaction per stream. Before a task starts it takes the sink
over from whoever wrote before under the same name: from then on no transaction of the former can be committed, here or
on a worker that believes it still owns the connector. Only then the positions are read, up to the end of their topic.
So they are what was committed, all of it, and nothing is added to it but by this task.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.spark.writing.identity import Attempt, SinkIdentity
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.markers import NO_BATCH
from moldau.spark.writing.sink_state import SinkRegister

TRANSACTION_MS: Final = 15 * 60_000
NO_SUCH_BATCH: Final = -2
"""Of the attempt that takes over: it writes nothing."""
SINK: Final = "connect"


def named(text: str) -> str:
    """A name that transactional ids may have; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9._:-]", "_", text)[:80]
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def identity_of(group: str, connector: str, task: int, prefix: str = "connect") -> SinkIdentity:
    return SinkIdentity(prefix, named(f"{group}/{connector}/{task}"), SINK)


def take_over(settings: ClientSettings, identity: SinkIdentity, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> int:
    """Fences everybody who wrote under this identity; returns the number of the first batch that may be written."""
    with Cluster(settings) as cluster:
        store = MarkerStore(cluster, identity.group)
        register = SinkRegister(cluster, identity, store, TRANSACTION_MS, time.monotonic)
        attempt = Attempt(run=str(new_uuid()), write="take-over", batch=NO_SUCH_BATCH, task=0)
        while True:
            state = register.state()
            if state is not None and state.run == attempt.run and state.open:
                break
            register.take_over(attempt, state)
        markers = store.markers(range(state.tasks))
    return max([state.batch, NO_BATCH, *(marker.batch for marker in markers.values())]) + 1
