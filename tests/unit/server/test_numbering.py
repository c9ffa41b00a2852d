"""Which number a broker has that was given none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError
from moldau.metadata import paths
from moldau.metadata.local import LocalStore
from moldau.metadata.node_ids import next_node_id
from moldau.metadata.store import Put
from moldau.server.numbering import numbered
from moldau.storage.checkpoints import DirectoryProperties, write_directory
from moldau.storage.files import OsFiles
from moldau.storage.log_directory import InconsistentDirectoryError

T = TypeVar("T")
FILES = OsFiles()


async def at_once(work: Callable[[], T]) -> T:
    return work()


def run(folder: Path, main: Callable[[LocalStore], Coroutine[Any, Any, T]]) -> T:
    async def opened() -> T:
        store = await LocalStore.open(str(folder / "metadata"), at_once)
        try:
            return await main(store)
        finally:
            await store.close()

    return asyncio.run(opened())


def config(*folders: Path, **settings: str) -> BrokerConfig:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig.load({"zookeeper.connect": "z:1", "log.dirs": ",".join(map(str, folders)), **given})


def belongs_to(folder: Path, number: int) -> Path:
    folder.mkdir()
    write_directory(FILES, str(folder), DirectoryProperties("a-cluster", number, UUID(int=number)))
    return folder


@pytest.mark.parametrize(
    ("given", "wants"),
    [
        ({}, True),
        ({"broker.id": "-1"}, True),
        ({"broker.id": "-1", "node.id": "4"}, False),
        ({"broker.id": "4"}, False),
        ({"node.id": "0"}, False),
    ],
)
def test_who_wants_a_number(given: dict[str, str], wants: bool) -> None:
    assert BrokerConfig.load({"zookeeper.connect": "z:1", **given}).wants_number is wants
    assert BrokerConfig.load(given).wants_number is False, "a broker alone is 1"


def test_numbers_lie_above_those_that_people_give_and_are_never_given_twice(tmp_path: Path) -> None:
    async def main(store: LocalStore) -> list[int]:
        await store.commit([Put(paths.broker(1002), b"{}")])
        at_once_two = await asyncio.gather(next_node_id(store, 1000), next_node_id(store, 1000))
        return [*at_once_two, await next_node_id(store, 1000), await next_node_id(store, 5000)]

    given = run(tmp_path, main)
    assert sorted(given[:2]) == [1001, 1003]
    assert given[2:] == [1004, 5001]


def test_a_broker_keeps_the_number_in_its_log_directories(tmp_path: Path) -> None:
    kept = config(belongs_to(tmp_path / "a", 7), tmp_path / "fresh")
    found = run(tmp_path, lambda store: numbered(kept, store, FILES))
    assert (found.node_id, found.values["broker.id"], found.wants_number) == (7, 7, False)
    assert found.log_dirs == kept.log_dirs


def test_a_fresh_broker_gets_one(tmp_path: Path) -> None:
    fresh = config(tmp_path / "a", reserved_broker_max_id="20")
    found = run(tmp_path, lambda store: numbered(fresh, store, FILES))
    assert (found.node_id, found.warnings) == (21, fresh.warnings)
    assert found.with_dynamic({}, {"log.cleaner.threads": "2"}).node_id == 21


def test_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    both = config(belongs_to(tmp_path / "a", 7), belongs_to(tmp_path / "b", 8))
    with pytest.raises(InconsistentDirectoryError, match=r"a says 7, .*b says 8"):
        run(tmp_path, lambda store: numbered(both, store, FILES))


def test_without_generation_a_number_has_to_be_given(tmp_path: Path) -> None:
    fresh = config(tmp_path / "a", broker_id_generation_enable="false")
    with pytest.raises(ConfigError, match=r"broker\.id"):
        run(tmp_path, lambda store: numbered(fresh, store, FILES))
