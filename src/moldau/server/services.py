"""What a broker is given instead of making it: where metadata is kept, how others are called, files, threads, who may
do what and how much, how time passes, what chance says. One value, so that a test or a simulation hands over its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from moldau.metadata.store import ClusterStore
from moldau.metrics import Metrics
from moldau.security.authorizer import AllowAll, Authorizer
from moldau.security.quotas import QuotaManager
from moldau.server.appends import RunBlocking
from moldau.server.host_names import LookUp
from moldau.server.peers.opening import Dial
from moldau.storage.files import FileSystem


@dataclass(frozen=True, slots=True)
class Clocks:
    monotonic: Callable[[], float]
    wall_ms: Callable[[], int]
    boot_seconds: Callable[[], float]
    """Runs on while the machine is suspended, unlike the monotonic clock: only this one may judge a lease."""


@dataclass(frozen=True, slots=True)
class Services:
    store: ClusterStore
    dial: Dial
    files: FileSystem
    run_blocking: RunBlocking
    clocks: Clocks
    rng: Random
    random_bytes: Callable[[int], bytes]
    """For what must not be guessed."""
    new_uuid: Callable[[], UUID]
    metrics: Metrics
    quotas: QuotaManager
    look_up: LookUp
    boot_id: str = ""
    """Changes when the machine restarts; a process that was killed under the same one has lost no written page."""
    authorizer: Authorizer = field(default_factory=AllowAll)
