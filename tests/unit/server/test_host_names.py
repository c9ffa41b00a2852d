"""Host names in settings: each is looked up once, away from the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from moldau.server.host_names import HostNames, addresses_of
from tests.support.loops import on_loop


class Directory:
    """Answers when it is told to."""

    def __init__(self, **known: str) -> None:
        self.known = known
        self.asked: list[str] = []
        self.told: list[dict[str, Sequence[str]]] = []
        self._may_answer = asyncio.Event()
        self.names = HostNames(self._look_up, self._run_blocking, self._tell)

    def answer(self) -> None:
        self._may_answer.set()

    def _look_up(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if name not in self.known:
            raise OSError("no such host")
        return (self.known[name],)

    def _run_blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        async def later() -> Any:
            await self._may_answer.wait()
            return work()

        return asyncio.ensure_future(later())

    def _tell(self, found: Mapping[str, Sequence[str]]) -> None:
        self.told.append(dict(found))


@on_loop
async def test_each_name_is_looked_up_once() -> None:
    directory = Directory(a="192.0.2.1", b="192.0.2.2")
    directory.names.want(["a"])
    directory.names.want(["a", "b"])
    assert directory.told == []
    directory.answer()
    await directory.names.known()
    directory.names.want(["a", "b"])
    await directory.names.known()
    assert sorted(directory.asked) == ["a", "b"]
    assert directory.told[-1] == {"a": ("192.0.2.1",), "b": ("192.0.2.2",)}


@on_loop
async def test_a_name_that_nobody_knows_is_told_and_asked_about_again_later(caplog: pytest.LogCaptureFixture) -> None:
    directory = Directory()
    directory.answer()
    directory.names.want(["a"])
    await directory.names.known()
    assert directory.told == []
    assert "the limit of a holds for nobody" in caplog.text
    directory.known["a"] = "192.0.2.1"
    directory.names.want(["a"])
    await directory.names.known()
    assert directory.told == [{"a": ("192.0.2.1",)}]


def test_this_machine_knows_itself() -> None:
    assert set(addresses_of("localhost")) & {"127.0.0.1", "::1"}
