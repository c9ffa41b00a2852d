"""How each kind of figure is measured: one call of `run` is one repetition on one broker.

A scenario with `standing` set is run again and again on a broker that stays up, as it would in use; the others get a
broker of their own each time, in an empty folder, with nothing else running.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from bench.load import Load, LoadGenerator, Result
from bench.locks import Lock
from bench.measure import Watch, cpu_seconds, resident_mb, warm_pages
from bench.outcomes import Values
from bench.peers import Topics, end_offsets
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

GB = 1e9
MB = 1e6
# Share of a run's payload that headers and record overhead may add on disk.
DISK_OVERHEAD = 1.2
SETTLE_SECONDS = 3.0
SERVED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scenario works with."""

    broker: BrokerProcess
    generator: LoadGenerator
    topic: str
    #: Where the broker's listeners are locked: loads go through the one with TLS.
    lock: Lock | None = None

    @property
    def address(self) -> str:
        return self.broker.address if self.lock is None else self.lock.tls_address

    def fitted(self, load: Load) -> Load:
        """The load with what a client needs at this address."""
        return load if self.lock is None else replace(load, settings=(*load.settings, *self.lock.client_settings))


class Scenario(Protocol):
    standing: ClassVar[bool]

    def run(self, stage: Stage) -> Values:
        """One repetition; the key `other_cores` says how much else the machine did meanwhile."""


def throughput(name: str, result: Result, watch: Watch, load: Load) -> dict[str, float]:
    """Rates and CPU of one direction, in messages and in bytes."""
    gigabytes = load.payload_bytes / GB
    measured_gigabytes = result.messages * load.size / GB
    return {
        f"{name}_msgs": result.per_second,
        f"{name}_mb": result.per_second * load.size / MB,
        f"{name}_cpu_gb": watch.broker_cpu / gigabytes,
        f"{name}_cpu_us": watch.broker_cpu / load.count * 1e6,
        f"{name}_client_gb": result.client_cpu / measured_gigabytes,
        f"{name}_client_us": result.client_cpu / result.messages * 1e6,
    }


@dataclass(frozen=True, slots=True)
class Throughput:
    """As fast as it goes into a fresh topic, and out again if `consume` is set."""

    standing: ClassVar[bool] = True
    load: Load
    consume: bool = True

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.topic, self.load.partitions)
        warm_pages(stage.broker.directory, math.ceil(self.load.payload_bytes * DISK_OVERHEAD))
        others = []
        with Watch(stage.broker.pid) as watch:
            result = stage.generator.produce(stage.address, stage.topic, stage.fitted(self.load))
        others.append(watch.other_cores)
        values = throughput("produce", result, watch, self.load)
        if self.consume:
            with Watch(stage.broker.pid) as watch:
                result = stage.generator.consume(stage.address, stage.topic, stage.fitted(self.load))
            others.append(watch.other_cores)
            values |= throughput("consume", result, watch, self.load)
        topics.delete(stage.topic)
        return {**values, "other_cores": max(others)}


@dataclass(frozen=True, slots=True)
class SmallRequests:
    """One message per request: pipelined by one producer, at a fixed rate, or by producers that wait for answers."""

    standing: ClassVar[bool] = True
    load: Load
    synchronous: bool = False

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.topic, self.load.partitions)
        send = stage.generator.synchronous if self.synchronous else stage.generator.produce
        with Watch(stage.broker.pid) as watch:
            result = send(stage.address, stage.topic, stage.fitted(self.load))
        topics.delete(stage.topic)
        return {
            "requests": result.per_second,
            "p50_us": result.p50_us,
            "p99_us": result.p99_us,
            "p999_us": result.p999_us,
            "cpu_us": watch.broker_cpu / self.load.count * 1e6,
            "client_us": result.client_cpu / result.messages * 1e6,
            "other_cores": watch.other_cores,
        }


@dataclass(frozen=True, slots=True)
class CleanStart:
    """From the start of the process on an empty, formatted folder to its first answer to a Metadata request."""

    standing: ClassVar[bool] = False

    def run(self, stage: Stage) -> Values:
        broker = stage.broker
        broker.restart()  # the first start may format the folder, which is not what is measured
        return {"start_s": broker.startup_seconds, "start_cpu_s": cpu_seconds(broker.pid)}


@dataclass(frozen=True, slots=True)
class RestartAfterKill:
    """SIGKILL with this much in the log, then from the start of the process until every record is served again."""

    standing: ClassVar[bool] = False
    load: Load

    def run(self, stage: Stage) -> Values:
        broker, partitions = stage.broker, self.load.partitions
        Topics(broker).create(stage.topic, partitions)
        warm_pages(broker.directory, math.ceil(self.load.payload_bytes * DISK_OVERHEAD))
        stage.generator.produce(broker.address, stage.topic, self.load)
        broker.kill()
        started = time.monotonic()
        broker.start()
        wait_until(
            lambda: end_offsets(broker.address, stage.topic, partitions) == self.load.count,
            "every record is served again",
            seconds=SERVED_SECONDS,
            pause=0.005,
        )
        return {"restart_s": time.monotonic() - started, "restart_cpu_s": cpu_seconds(broker.pid)}


@dataclass(frozen=True, slots=True)
class Memory:
    """At rest, and after a load that came in and went out again."""

    standing: ClassVar[bool] = False
    loads: tuple[Load, ...]

    def run(self, stage: Stage) -> Values:
        broker = stage.broker
        time.sleep(SETTLE_SECONDS)
        at_rest = resident_mb(broker.pid)
        with Watch(broker.pid) as watch:
            time.sleep(SETTLE_SECONDS)
        for number, load in enumerate(self.loads):
            topic = f"{stage.topic}-{number}"
            Topics(broker).create(topic, load.partitions)
            stage.generator.produce(broker.address, topic, load)
            stage.generator.consume(broker.address, topic, load)
        return {
            "rest_mb": at_rest,
            "rest_cpu_percent": watch.broker_cpu / watch.seconds * 100,
            "loaded_mb": resident_mb(broker.pid),
        }


@dataclass(frozen=True, slots=True)
class IdleConnections:
    """Memory with many connections that say nothing, and what opening one costs (with one ApiVersions exchange)."""

    standing: ClassVar[bool] = False
    count: int

    def run(self, stage: Stage) -> Values:
        broker = stage.broker
        time.sleep(SETTLE_SECONDS)
        before = resident_mb(broker.pid)
        cpu_before = cpu_seconds(broker.pid)
        with stage.generator.idle_connections(broker.address, self.count):
            opened_cpu = cpu_seconds(broker.pid) - cpu_before
            time.sleep(SETTLE_SECONDS)
            held = resident_mb(broker.pid)
        return {
            "held_mb": held,
            "per_connection_kb": (held - before) * 1e3 / self.count,
            "open_cpu_us": opened_cpu / self.count * 1e6,
        }
