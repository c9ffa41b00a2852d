"""Members of consumer groups: processes of `tests.support.group_worker`, and what they have told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
#: Below Kafka's least, so that tests see dead members go; brokers are started with a lower minimum.
SESSION_MS = 1500

Partition = tuple[str, int]
Record = tuple[int, int]


class GroupMember:
    def __init__(
        self,
        client: str,
        address: str,
        group: str,
        topic: str,
        strategy: str,
        name: str,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> None:
        self.name = name
        self.assigned: frozenset[Partition] | None = None
        """What it has; None before it was told."""
        self.rebalances = 0
        self.records: Counter[Record] = Counter()
        self.fatal: str | None = None
        arguments = [client, address, group, topic, strategy, str(session_ms), name, *([instance] if instance else [])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.group_worker", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls one function of the C library
        )
        self.errors: list[str] = []
        self._readers = [threading.Thread(target=reads, daemon=True) for reads in (self._listen, self._listen_errors)]
        for reader in self._readers:
            reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if "assigned" in told:
                self.assigned = frozenset((topic, partition) for topic, partition in told["assigned"])
                self.rebalances += 1
            elif "records" in told:
                self.records.update((partition, offset) for partition, offset in told["records"])
            else:
                self.fatal = told["fatal"]

    def _listen_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors += self.process.stderr

    def leave(self) -> None:
        """A clean end: it commits and leaves the group."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SECONDS)
        self._hear_out()
        assert code == 0, f"{self.name} ended with {code}\n{''.join(self.errors)}"

    def kill(self) -> None:
        """Also for one that has ended by itself, or before."""
        self.process.kill()
        self.process.wait(SECONDS)
        self._hear_out()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _hear_out(self) -> None:
        for reader in self._readers:
            reader.join(SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def shares(members: Sequence[GroupMember]) -> list[frozenset[Partition] | None]:
    return [member.assigned for member in members]


def all_is_shared(members: Sequence[GroupMember], partitions: frozenset[Partition]) -> bool:
    """Everybody was told their share, and each partition is in one of them."""
    told = [share for share in shares(members) if share is not None]
    return len(told) == len(members) and Counter(each for share in told for each in share) == Counter(partitions)


def await_shared(members: Sequence[GroupMember], partitions: frozenset[Partition]) -> None:
    wait_until(
        lambda: all_is_shared(members, partitions),
        f"{[member.name for member in members]} share {len(partitions)} partitions",
        SECONDS,
    )
