"""What the log keeps of a checked record batch, and who may append one."""

from __future__ import annotations

from enum import IntEnum

from moldau.kernels import BatchCheck
from moldau.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT


class BatchInfo(BatchCheck):
    """Made from the kernel's tuple by a single copy: `BatchInfo._make(check_batch(…))`."""

    __slots__ = ()

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)


class Origin(IntEnum):
    """Who appends; it decides how much of the producer's state is checked."""

    CLIENT = 0  # epoch, sequence, duplicates
    COORDINATOR = 1  # epoch only: offset commits and markers carry no sequence
    REPLICATION = 2  # nothing: the leader has checked
