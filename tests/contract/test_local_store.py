"""The embedded store keeps the contract, on a real folder and with a snapshot after every few commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from moldau.metadata.local import LocalStore
from tests.contract.metadata_store import MetadataStoreContract, Opener

T = TypeVar("T")


async def in_a_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)


def opener(folder: Path, rotate_bytes: int) -> Opener:
    @asynccontextmanager
    async def opened() -> AsyncIterator[LocalStore]:
        store = await LocalStore.open(str(folder), in_a_thread, rotate_bytes=rotate_bytes)
        try:
            yield store
        finally:
            await store.close()

    return opened


class TestLocalStore(MetadataStoreContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opener:
        return opener(tmp_path / "metadata", 4 << 20)


class TestLocalStoreThatRotatesOften(MetadataStoreContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opener:
        return opener(tmp_path / "metadata", 100)
