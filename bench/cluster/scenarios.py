"""How each figure of a cluster is measured: one call of `run` is one repetition on one cluster.

A scenario with `standing` set is run again and again on a cluster that stays up; the others get one of their own, made
but not started.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.cluster.asking import ADMIN_SECONDS, Asking
from bench.cluster.clusters import BROKERS, MeasuredCluster
from bench.load import Load, LoadGenerator
from bench.measure import Watch, resident_mb, warm_pages
from bench.outcomes import Values
from bench.scenarios import DISK_OVERHEAD, SETTLE_SECONDS, throughput
from tests.peers.java_process import QUICK_RETRIES as JAVAS_QUICK_RETRIES
from tests.peers.java_process import JavaProgram
from tests.support.waiting import wait_until

#: A write at least every so often, so that a gap is one of the cluster's.
BEAT_SECONDS = 0.002
BEFORE_SECONDS = 2.0
BACK_SECONDS = 120.0
ASK_AGAIN_SECONDS = 0.02
#: Kafka's clients with quick retries; all else is librdkafka's default.
QUICK_RETRIES = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 50,
}


@dataclass(frozen=True, slots=True)
class Stage:
    cluster: MeasuredCluster
    generator: LoadGenerator
    topic: str


class Scenario(Protocol):
    standing: ClassVar[bool]

    def run(self, stage: Stage) -> Values: ...


@dataclass(frozen=True, slots=True)
class Replicated:
    """Into a fresh topic with three copies: as fast as it goes, or at the load's rate."""

    standing: ClassVar[bool] = True
    load: Load

    def run(self, stage: Stage) -> Values:
        asking = Asking(stage.cluster)
        asking.create(stage.topic, self.load.partitions)
        if not self.load.rate:
            warm_pages(stage.cluster.data[0], math.ceil(BROKERS * self.load.payload_bytes * DISK_OVERHEAD))
        with Watch(*stage.cluster.pids) as watch:
            result = stage.generator.produce(stage.cluster.bootstrap, stage.topic, self.load)
        memory = sum(resident_mb(pid) for pid in stage.cluster.pids)
        asking.delete(stage.topic)
        return {
            **throughput("produce", result, watch, self.load),
            "p50_us": result.p50_us,
            "p99_us": result.p99_us,
            "p999_us": result.p999_us,
            "memory_mb": memory,
            "other_cores": watch.other_cores,
        }


@dataclass(frozen=True, slots=True)
class Start:
    """From nothing but formatted folders until a topic with three copies is in sync on all brokers."""

    standing: ClassVar[bool] = False

    def run(self, stage: Stage) -> Values:
        began = time.monotonic()
        with stage.cluster:
            up = time.monotonic() - began
            created_after(stage.cluster, stage.topic)
            usable = time.monotonic() - began
            time.sleep(SETTLE_SECONDS)
            with Watch(*stage.cluster.pids) as watch:
                time.sleep(SETTLE_SECONDS)
            return {
                "up_s": up,
                "usable_s": usable,
                "rest_mb": sum(resident_mb(pid) for pid in stage.cluster.pids),
                "rest_cpu_percent": watch.broker_cpu / watch.seconds * 100,
            }


@dataclass(frozen=True, slots=True)
class LeaderKilled:
    """SIGKILL of a leader under an idempotent producer with acks=all: the longest time without an acknowledgement."""

    standing: ClassVar[bool] = True

    def run(self, stage: Stage) -> Values:
        asking = Asking(stage.cluster)
        asking.create(stage.topic, 1)
        with Beat(stage.cluster.bootstrap, stage.topic) as beat:
            time.sleep(BEFORE_SECONDS)
            leader = asking.leader(stage.topic)
            beat.longest_gap = 0.0
            stage.cluster.kill_broker(leader)
            killed = time.monotonic()
            wait_until(lambda: beat.last > killed + BEFORE_SECONDS, "writes go on", BACK_SECONDS)
            gap = beat.longest_gap
        restore(stage.cluster, asking, stage.topic)
        return {"gap_s": gap}


@dataclass(frozen=True, slots=True)
class LeaderKilledUnderJava:
    """The same with Java's producer, at its defaults but for quick retries."""

    standing: ClassVar[bool] = True

    def run(self, stage: Stage) -> Values:
        asking = Asking(stage.cluster)
        asking.create(stage.topic, 1)
        given = {"bootstrap": stage.cluster.bootstrap, "topic": stage.topic, "pause": round(BEAT_SECONDS * 1e6)}
        with tempfile.TemporaryDirectory() as folder:
            beat = JavaProgram("SendLoop", Path(folder) / "errors", {**given, **JAVAS_QUICK_RETRIES})
            try:
                beat.goes_on(1)
                time.sleep(BEFORE_SECONDS)
                beat.ask("longest")
                stage.cluster.kill_broker(asking.leader(stage.topic))
                time.sleep(BEFORE_SECONDS)
                beat.goes_on(1)
                gap_ms = float(beat.ask("longest"))
                beat.end()
            finally:
                beat.kill()
            failed = [line for line in beat.lines if line.startswith("failed ")]
        if failed:
            raise KafkaException(KafkaError(KafkaError._FAIL, failed[0]))
        restore(stage.cluster, asking, stage.topic)
        return {"gap_s": gap_ms / 1000}


@dataclass(frozen=True, slots=True)
class ControllerKilled:
    """SIGKILL of the controller: until a topic can be created again."""

    standing: ClassVar[bool] = True

    def run(self, stage: Stage) -> Values:
        asking = Asking(stage.cluster)
        asking.create(stage.topic, 1)
        controller = asking.controller()
        killed = time.monotonic()  # and not when the process is gone: the others may be done by then
        stage.cluster.kill_broker(controller)
        created_after(stage.cluster, f"after-{stage.topic}", in_sync=False)
        gap = time.monotonic() - killed
        restore(stage.cluster, asking, stage.topic)
        return {"gap_s": gap}


def created_after(cluster: MeasuredCluster, topic: str, in_sync: bool = True) -> None:
    """Returns when a topic could be created; asked again and again, and each time for a short while."""
    copies = BROKERS if in_sync else BROKERS - 1
    asking = Asking(cluster)
    number = 0

    def created() -> bool:
        nonlocal number
        number += 1
        with suppress(KafkaException):
            asking.create_quickly(f"{topic}-{number}", copies)
            return True
        return False

    wait_until(created, "a topic can be created", BACK_SECONDS, ASK_AGAIN_SECONDS)
    if in_sync:
        wait_until(lambda: asking.is_whole(f"{topic}-{number}"), "its copies are in sync", ADMIN_SECONDS)


def restore(cluster: MeasuredCluster, asking: Asking, topic: str) -> None:
    cluster.start()
    wait_until(lambda: asking.is_whole(topic), f"{topic} is whole again", BACK_SECONDS, 0.1)


class Beat:
    """A small record every few milliseconds, and how long none was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "log_level": 0,
                **QUICK_RETRIES,
            }
        )
        self.longest_gap = 0.0
        self.last = time.monotonic()
        self._failed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Beat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(ADMIN_SECONDS)
        if self._failed:
            raise KafkaException(KafkaError(KafkaError._FAIL, self._failed[0]))

    def _run(self) -> None:
        number = 0
        while not self._over.wait(BEAT_SECONDS):
            with suppress(BufferError):
                self._producer.produce(self._topic, str(number), on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed.append(str(error))
            return
        now = time.monotonic()
        self.longest_gap, self.last = max(self.longest_gap, now - self.last), now
