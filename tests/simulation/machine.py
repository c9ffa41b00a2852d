"""A simulated machine: a disk that stays, and one life of a broker after the other."""

from __future__ import annotations

import asyncio
import logging
from asyncio import events
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

from moldau.client.settings import Address
from moldau.config.broker import BrokerConfig
from moldau.metadata.store import StoreError
from moldau.metadata.zookeeper.store import StoreOptions, ZooKeeperStore
from moldau.metrics import Metrics
from moldau.security.quotas import client_quotas
from moldau.server.connection import Connection
from moldau.server.core import BrokerCore
from moldau.server.services import Clocks, Services
from moldau.storage.errors import LogIOError
from tests.simulation.disk import SimulatedDisk
from tests.simulation.ensemble import SESSION_SECONDS, SimulatedEnsemble, SimulatedPort
from tests.simulation.network import Network, Transport
from tests.simulation.scheduler import WALL_MS, NodeLoop, Scheduler

PORT = 9092
LISTENER = "PLAINTEXT"
HELD_SECONDS = 0.05


def broker_config(broker_id: int, name: str, directories: Sequence[str], settings: Mapping[str, str]) -> BrokerConfig:
    return BrokerConfig.load(
        {
            "broker.id": str(broker_id),
            "log.dirs": ",".join(directories),
            "listeners": f"{LISTENER}://{name}:{PORT}",
            "zookeeper.connect": "zookeeper:2181",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "replica.lag.time.max.ms": "2000",
            "log.cleaner.enable": "false",
            "connections.max.idle.ms": "-1",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "leader.imbalance.check.interval.seconds": "7",
            **settings,
        }
    )


class Life:
    """One process of a broker, from its start to its death."""

    def __init__(self, machine: Machine, number: int) -> None:
        scheduler = machine.scheduler
        self.machine, self.number = machine, number
        self.name = machine.name
        self.loop = NodeLoop(scheduler, f"{self.name}#{number}", machine.clock_rate)
        self.rng = Random(f"{scheduler.rng.random()}")
        self.is_up = True
        self.is_listening = False
        self.core: BrokerCore | None = None
        self.port: SimulatedPort | None = None
        self.is_ready = self._is_stopping = False
        self._accepting: list[Transport] | None = []
        self.refusal: str | None = None
        self.loop.call(lambda: self.loop.create_task(self._start_or_fail()))

    @property
    def is_powered(self) -> bool:
        return self.machine.is_powered

    async def _start_or_fail(self) -> None:
        try:
            await self._start()
        except (OSError, LogIOError, StoreError) as error:
            self.fail(f"{type(error).__name__}: {error}")

    async def _start(self) -> None:
        machine, now = self.machine, self.loop.time
        self.port = machine.ensemble.connect()
        options = StoreOptions(
            SESSION_SECONDS,
            machine.ensemble.entries_between_snapshots,
            boot_clock=now,
            new_writer=lambda: self.rng.getrandbits(63),
        )
        store = await ZooKeeperStore.open(self.port, "", options)
        store.on_session_lost(lambda reason: self.fail(f"store lost: {reason}"))
        config, metrics = broker_config(machine.broker_id, self.name, machine.directories, machine.settings), Metrics()
        services = Services(
            store,
            lambda address, protocol, tls: machine.network.dial(self, address, protocol, tls),
            machine.disk,
            self._run_blocking,
            Clocks(now, lambda: WALL_MS + machine.wall_jump_ms + int(now() * 1000), now),
            Random(self.rng.random()),
            self.rng.randbytes,
            lambda: UUID(int=self.rng.getrandbits(128), version=4),
            metrics,
            client_quotas(config, now, metrics),
            lambda host: (host,),
            machine.boot_id,
        )
        self.core = BrokerCore(config, services, self.fail)
        await self.core.open()
        self.is_listening = True
        await self.core.join({LISTENER: (self.name, PORT)})
        waiting, self._accepting = self._accepting or [], None
        for transport in waiting:
            self.accept(transport)
        self.is_ready = True

    def accept(self, transport: Transport) -> None:
        if self._accepting is not None:
            self._accepting.append(transport)
        elif self.core is not None:
            transport.accepted(Connection(self.core.host, LISTENER))

    def _run_blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """On a thread of its own some time later, for as long as the process lives."""
        future: asyncio.Future[Any] = self.loop.create_future()

        def run() -> None:
            if not self.is_up:
                return
            if self.loop.held:
                self.machine.scheduler.after(HELD_SECONDS, run)
                return
            try:
                result, error = work(), None
            except Exception as failure:
                result, error = None, failure
            self.loop.call_soon(settle, future, result, error)

        self.machine.scheduler.after(self.machine.disk_seconds * self.rng.random(), run)
        return future

    def fail(self, reason: str) -> None:
        """The process ends; if that is not what is to be expected, it is a problem."""
        self.refusal = reason
        if self.loop.name in self.machine.scheduler.excused:
            self.machine.scheduler.after(0.0, self.machine.kill)
        else:
            self.machine.scheduler.problems.append(f"{self.name} gave up: {reason}")

    async def _stop(self, restart_seconds: float) -> None:
        assert self.core is not None
        await self.core.leave()
        self.is_ready = self.is_listening = False
        await self.core.stop()
        await self.core.close()
        self.machine.scheduler.after(0.0, self.machine.kill)
        self.machine.scheduler.after(restart_seconds, self.machine.start)

    def stop(self, restart_seconds: float) -> None:
        if self.is_ready and not self._is_stopping:
            self._is_stopping = True
            self.loop.call(lambda: self.loop.create_task(self._stop(restart_seconds)))

    def die(self) -> None:
        self.is_up = False
        self.loop.kill()
        if self.port is not None:
            self.port.owner_died()


def settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class Machine:
    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        ensemble: SimulatedEnsemble,
        broker_id: int,
        clock_rate: float = 1.0,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        disks: int = 1,
    ) -> None:
        self.scheduler, self.network, self.ensemble = scheduler, network, ensemble
        self.broker_id, self.name = broker_id, name or f"b{broker_id}"
        self.clock_rate = clock_rate
        self.settings = settings or {}
        self.directories = [f"/{kind}{broker_id}" for kind in ("disk", "more")[:disks]]
        self.disk = SimulatedDisk(self.directories)
        self.disk_seconds = 0.002
        self.wall_jump_ms = 0
        self.is_powered = True
        self.lives: list[Life] = []
        self._boots = 0
        self.address = Address(self.name, PORT)
        network.servers[self.address] = lambda: self.life
        self.start()

    @property
    def life(self) -> Life | None:
        return self.lives[-1] if self.lives and self.lives[-1].is_up else None

    @property
    def core(self) -> BrokerCore | None:
        """The broker, once it serves."""
        life = self.life
        return life.core if life is not None and life.is_ready else None

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self._boots}"

    def start(self) -> None:
        if self.life is None:
            self.is_powered = True
            self.lives.append(Life(self, len(self.lives)))
            if self.disk.fail_writes is not None or self.disk.fail_syncs:
                self.scheduler.excused.add(self.lives[-1].loop.name)
            if self.disk.broken:
                self.scheduler.complaining.add(self.lives[-1].loop.name)

    def kill(self) -> None:
        life = self.life
        if life is not None:
            life.die()
            self.network.process_ended(life, told=True)
            self.disk.process_died()

    def stop(self, restart_seconds: float) -> None:
        """In good order: what it leads is handed over first."""
        if self.life is not None:
            self.life.stop(restart_seconds)

    def replace(self, directories: Sequence[str]) -> None:
        """The process dies, and somebody puts in other disks."""
        self.kill()
        for directory in directories:
            self.disk.broken.discard(directory)
            self.disk.replaced(directory)
        if len(directories) == len(self.directories):
            self.disk.fail_writes, self.disk.fail_syncs = None, False

    def break_directory(self, directory: str) -> None:
        """Its disk fails in all that is asked of it. The broker says so, and goes on with the others."""
        self.disk.broken.add(directory)
        if self.life is not None:
            self.scheduler.complaining.add(self.life.loop.name)

    def mend_directories(self) -> None:
        """Those that have failed stay offline until the broker is started again."""
        if self.disk.broken:
            self.disk.broken.clear()
            self.kill()
            self.start()

    def spoil_disk(self, *, full: bool, room: int = 0) -> None:
        """It takes no more than some bytes, or fails to sync; whatever the broker says to that is no problem."""
        if self.life is not None:
            self.scheduler.excused.add(self.life.loop.name)
            self.disk.fail_writes, self.disk.fail_syncs = (room if full else None), not full

    def mend_disk(self) -> None:
        self.disk.fail_writes, self.disk.fail_syncs = None, False
        life = self.life
        if life is not None and life.loop.name in self.scheduler.excused:
            self.kill()  # its folder stays offline until it is started again
        self.start()

    def cut_power(self) -> None:
        life = self.life
        if life is not None:
            self.is_powered = False
            life.die()
            self.network.process_ended(life, told=False)
            self.disk.power_failed(self.scheduler.rng)
            self._boots += 1

    def pause(self) -> None:
        life = self.life
        if life is not None:
            life.loop.held = True
            if life.port is not None:
                life.port.silent()

    def go_on(self) -> None:
        life = self.life
        if life is not None and life.loop.held:
            life.loop.held = False
            if life.port is not None:
                life.port.reconnect()


class ProblemLog(logging.Handler):
    """What a broker reports as an error is one, unless it has a reason."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(logging.ERROR)
        self._problems, self._excused = scheduler.problems, scheduler.excused
        self._complaining = scheduler.complaining

    def emit(self, record: logging.LogRecord) -> None:
        loop = events._get_running_loop()
        if isinstance(loop, NodeLoop) and loop.name in (self._excused | self._complaining):
            return
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self._problems.append(text)
