"""What a fetch reads, within its limits, and what wakes one that waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metadata.image import PartitionImage
from moldau.replication.fetch_sessions import FetchTarget
from moldau.replication.partition import Partition
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.server import fetching
from moldau.server.fetching import FetchLimits, FetchRound, WaitingFetch, read_round
from moldau.storage.errors import LogIOError
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, TopicPartition
from moldau.wire.apis import ApiKey
from moldau.work.slices import Work, at_once
from tests.support.logs import append, batch, open_log
from tests.support.terms import term

CONTEXT = RequestContext(ClientIdentity(ANONYMOUS, "PLAINTEXT", "client"), "", ApiKey.FETCH, 17, 1)
T_ID, GONE_ID = UUID(int=7), UUID(int=8)
FOR_EVER_MS = 3_600_000


class World:
    """A broker with two led partitions of `t`, whose committed end the test moves."""

    def __init__(self, folder: Path) -> None:
        self.parts = [self.led(folder, index, term(1)) for index in range(2)]
        self.hidden: set[str] = set()
        self.failed: list[Exception] = []
        self.topics = {"t": SimpleNamespace(name="t")}
        self.broker = cast(
            Any,
            SimpleNamespace(
                partitions=self,
                authorizer=self,
                image=SimpleNamespace(topics=self.topics, topics_by_id={T_ID: SimpleNamespace(name="t")}),
                storage_failed=lambda _, error: self.failed.append(error),
                replica_selector=None,
            ),
        )

    def led(self, folder: Path, index: int, led: PartitionImage) -> Partition:
        path = folder / str(index)
        path.mkdir()
        one = Partition(TopicPartition("t", index), T_ID, 1)
        one.log = open_log(str(path))
        one.lead(led)
        return one

    def get(self, topic: str, index: int) -> Partition:
        if topic != "t" or index >= len(self.parts):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.parts[index]

    def allows(self, _context: RequestContext, _operation: Operation, _kind: Resource, name: str) -> bool:
        return name not in self.hidden

    def write(self, index: int, *values: bytes) -> None:
        one = self.parts[index]
        assert one.log is not None
        append(one.log, *values)
        one.log_grew()
        one.advance(one.log.log_end_offset)

    def round(self, *targets: FetchTarget, **limits: Any) -> FetchRound:
        return at_once(read_round(self.broker, CONTEXT, targets, wanted(**limits)))


def wanted(**limits: Any) -> FetchLimits:
    given = {
        "replica_id": -1,
        "read_committed": False,
        "max_wait_ms": FOR_EVER_MS,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
    }
    return FetchLimits(**{**given, **limits})


def target(index: int = 0, offset: int = 0, *, topic: UUID | str = "t", max_bytes: int = 1 << 20) -> FetchTarget:
    return FetchTarget((topic, index), offset, max_bytes, NO_EPOCH, NO_EPOCH)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- one round -------------------------------------------------------------------------------------------------------


def errors(found: FetchRound) -> list[int]:
    return [fetched.error for _, fetched in found.results]


def lengths(found: FetchRound) -> list[int]:
    return [0 if fetched.records is None else fetched.records.length for _, fetched in found.results]


def test_a_follower_needs_no_right_to_read_topics(world: World) -> None:
    """It may act for the cluster, which is asked before."""
    world.write(0, b"value")
    world.hidden.add("t")
    for part in world.parts:
        part.lead(term(1, epoch=1, replicas=(1, 2), isr=(1, 2)))
    assert errors(world.round(target(0), target(1))) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    found = world.round(target(0), target(1), replica_id=2)
    assert (errors(found), lengths(found)) == ([0, 0], [len(batch(b"value")), 0])


def test_the_first_batch_comes_whole_and_the_limit_holds_for_the_rest(world: World) -> None:
    size = len(batch(b"value"))
    for index in (0, 1):
        for _ in range(3):
            world.write(index, b"value")
    assert lengths(world.round(target(0), target(1), max_bytes=1)) == [size, 0]
    assert lengths(world.round(target(0), target(1), max_bytes=4 * size)) == [3 * size, size]
    assert lengths(world.round(target(0, max_bytes=1), target(1, max_bytes=2 * size))) == [size, 2 * size]
    assert lengths(world.round(target(0, 3), target(1, max_bytes=1))) == [0, size]  # the first that has anything


def test_files_of_an_answer_stay_open_until_it_is_released(world: World) -> None:
    world.write(0, b"value")
    found = world.round(target())
    records = found.results[0][1].records
    assert records is not None
    log = world.parts[0].log
    assert log is not None
    log.close(clean=False)
    descriptor = records.file.fileno
    assert len(os.pread(descriptor, 1 << 20, 0)) == records.length
    found.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(descriptor, 1, 0)


def test_what_may_not_be_read_or_is_not_there_is_refused_each_for_itself(world: World) -> None:
    world.write(0, b"value")
    world.hidden.add("secret")
    found = world.round(
        target(topic="secret"),
        target(topic="missing"),
        target(topic=GONE_ID),
        target(5),
        target(0, 9),
        target(0),
    )
    assert errors(found) == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NONE,
    ]
    assert lengths(found)[-1] > 0
    assert found.is_due(wanted(min_bytes=1 << 20))


@pytest.mark.parametrize(
    ("is_there_again", "code"),
    [(True, ErrorCode.INCONSISTENT_TOPIC_ID), (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_a_session_is_told_what_became_of_a_topic_by_id(world: World, is_there_again: bool, code: ErrorCode) -> None:
    known = target(topic=T_ID)
    assert errors(world.round(known)) == [ErrorCode.NONE]
    del world.broker.image.topics_by_id[T_ID]
    if not is_there_again:
        del world.topics["t"]
    assert errors(world.round(known)) == [code]


def test_a_failed_disk_is_told_and_takes_the_folder_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(0, b"value")
    log = world.parts[0].log
    failure = LogIOError("/disk", OSError("broken"))

    def fail(*_arguments: object, **_named: object) -> None:
        raise failure

    monkeypatch.setattr(type(log), "read", fail)
    assert errors(world.round(target())) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.failed == [failure]


# -- waiting ---------------------------------------------------------------------------------------------------------


class Waiting:
    def __init__(self, world: World, *targets: FetchTarget, **limits: Any) -> None:
        self.answers: list[list[int]] = []
        self.fetch = WaitingFetch(world.broker, CONTEXT, list(targets), wanted(**limits), self._respond, at_once)
        at_once(self.fetch.register())

    def _respond(self, found: FetchRound) -> Work[None]:
        self.answers.append(lengths(found))
        found.release()
        yield from ()


async def turns_of_the_loop() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_a_waiting_fetch_is_answered_once_when_there_is_enough(world: World) -> None:
    async def main() -> None:
        size = len(batch(b"value"))
        one = Waiting(world, target(0), target(1), min_bytes=2 * size)
        world.write(1, b"value")
        await turns_of_the_loop()
        assert one.answers == []
        world.write(0, b"value")
        world.write(1, b"value")
        await turns_of_the_loop()
        assert one.answers == [[size, 2 * size]]
        world.write(0, b"value")
        await turns_of_the_loop()
        assert len(one.answers) == 1
        assert not any(part.mark_waits for part in world.parts)

    run(main)


def test_when_its_time_is_up_it_gets_what_there_is_and_leaves_its_waits(world: World) -> None:
    async def main() -> None:
        one = Waiting(world, target(0), target(1), min_bytes=1 << 20)
        world.write(0, b"value")
        await turns_of_the_loop()
        assert one.answers == []
        one.fetch.time_is_up()
        assert one.answers == [[len(batch(b"value")), 0]]
        assert not any(part.mark_waits for part in world.parts)

    run(main)


def test_a_fetch_that_is_given_up_answers_nothing(world: World) -> None:
    async def main() -> None:
        one = Waiting(world, target(0))
        world.write(0, b"value")
        one.fetch.cancel()
        await turns_of_the_loop()
        assert one.answers == []
        assert not any(part.mark_waits for part in world.parts)

    run(main)


MANY = 3 * fetching.PARTITIONS_PER_TURN


class Followed:
    """A follower's fetch of many partitions, which registers at them in turns; each look at one is counted."""

    def __init__(self, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        world.parts = [world.led(folder, index + 10, term(1, replicas=(1, 2))) for index in range(MANY)]
        self.looks = 0
        read_partition = fetching.read_partition

        def counting(*arguments: Any) -> Any:
            self.looks += 1
            return read_partition(*arguments)

        monkeypatch.setattr(fetching, "read_partition", counting)
        self.answers: list[int] = []
        targets = [FetchTarget((T_ID, index), 0, 1 << 20, 0, NO_EPOCH) for index in range(MANY)]
        self.fetch = WaitingFetch(world.broker, CONTEXT, targets, wanted(replica_id=2), self._respond, at_once)
        self.registering = self.fetch.register()
        next(self.registering)

    def _respond(self, found: FetchRound) -> Work[None]:
        self.answers.append(found.record_bytes)
        found.release()
        yield from ()


def test_a_follower_of_idle_partitions_waits_without_another_look_at_them(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        one = Followed(world, tmp_path, monkeypatch)
        at_once(one.registering)
        await turns_of_the_loop()
        assert (one.looks, one.answers) == (0, [])
        world.write(MANY - 1, b"value")
        await turns_of_the_loop()
        assert (one.looks, one.answers) == (MANY, [len(batch(b"value"))])

    run(main)


@pytest.mark.parametrize("index", [0, MANY - 1], ids=["where it is registered", "where it is not yet"])
@pytest.mark.parametrize("what", ["records", "another leader"])
def test_what_happens_while_a_follower_registers_is_not_missed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int, what: str
) -> None:
    async def main() -> None:
        one = Followed(world, tmp_path, monkeypatch)
        if what == "records":
            world.write(index, b"value")
        else:
            world.parts[index].follow(term(2, epoch=1, replicas=(1, 2)))
        at_once(one.registering)
        await turns_of_the_loop()
        assert one.answers == [len(batch(b"value")) if what == "records" else 0]

    run(main)


def test_the_end_of_a_term_answers_it(world: World) -> None:
    async def main() -> None:
        one = Waiting(world, target(0))
        world.parts[0].follow(term(2, epoch=1))
        await turns_of_the_loop()
        assert one.answers == [[0]]

    run(main)
