"""The clock of leases."""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_seconds() -> float:
    """Goes on while the machine is suspended, where the kernel has such a clock: CLOCK_MONOTONIC stands still then, and
    a lease would outlive its time. Only differences mean something."""
    return time.clock_gettime(_BOOT)
