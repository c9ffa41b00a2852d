"""What coming in costs: TLS handshakes, and logins with SCRAM beside a client that is at work. (What TLS costs a client
that is in is measured with the loads of the open listener.)"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from bench.load import Load, LoadFailed
from bench.locks import Lock, add_user
from bench.measure import Watch
from bench.outcomes import Values
from bench.peers import Topics
from bench.scenarios import Stage

KNOCK_SECONDS: Final = 300


def lock_of(stage: Stage) -> Lock:
    assert stage.lock is not None, "the case has to be a locked one"
    return stage.lock


@dataclass(frozen=True, slots=True)
class Handshakes:
    standing: ClassVar[bool] = True
    count: int

    def run(self, stage: Stage) -> Values:
        with Watch(stage.broker.pid) as watch:
            done = knocked("handshakes", lock_of(stage).tls_address, self.count)
        return {
            "handshakes": done["count"] / done["seconds"],
            "handshake_cpu_us": watch.broker_cpu / done["count"] * 1e6,
            "other_cores": watch.other_cores,
        }


@dataclass(frozen=True, slots=True)
class Logins:
    """As many as go, alone; then as many as go while `steady` is sent on the open listener, which is sent alone too."""

    standing: ClassVar[bool] = True
    count: int
    steady: Load

    def run(self, stage: Stage) -> Values:
        address = lock_of(stage).login_address
        add_user(stage.broker.address)
        with Watch(stage.broker.pid) as watch:
            done = knocked("logins", address, self.count)
        topics = Topics(stage.broker)
        topics.create(stage.topic, self.steady.partitions)
        undisturbed = stage.generator.produce(stage.broker.address, stage.topic, self.steady)
        with knocking("logins", address):
            disturbed = stage.generator.produce(stage.broker.address, stage.topic, self.steady)
        topics.delete(stage.topic)
        return {
            "logins": done["count"] / done["seconds"],
            "login_cpu_us": watch.broker_cpu / done["count"] * 1e6,
            "alone_p99_us": undisturbed.p99_us,
            "beside_p50_us": disturbed.p50_us,
            "beside_p99_us": disturbed.p99_us,
            "other_cores": watch.other_cores,
        }


def command(mode: str, address: str, count: int) -> list[str]:
    return [sys.executable, "-m", "bench.knocking", mode, address, str(count)]


def knocked(mode: str, address: str, count: int) -> dict[str, float]:
    done = subprocess.run(
        command(mode, address, count), capture_output=True, text=True, timeout=KNOCK_SECONDS, check=False
    )
    return result(mode, done.returncode, done.stdout, done.stderr)


@contextmanager
def knocking(mode: str, address: str) -> Iterator[None]:
    """Until the `with` block has ended."""
    with subprocess.Popen(
        command(mode, address, 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield
        finally:
            out, complaint = process.communicate(timeout=KNOCK_SECONDS)
    result(mode, process.returncode, out, complaint)


def result(mode: str, code: int, out: str, complaint: str) -> dict[str, float]:
    if code != 0:
        raise LoadFailed(f"{mode} ended with {code}: {complaint[-2000:]}")
    found: dict[str, float] = json.loads(out)
    return found
