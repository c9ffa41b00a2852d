"""Which broker of this machine `broker stop` means."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.broker.actions import choose
from moldau.cli.broker.local_brokers import LocalBroker
from moldau.cli.output import CommandError


def broker(pid: int, port: int, node_id: int) -> LocalBroker:
    return LocalBroker(pid, ("python",), (Path(f"/data/{pid}"),), (port,), node_id, "c", 0, 1.0)


TWO = [broker(1, 9092, 1), broker(2, 9093, 2)]


def test_the_only_one_is_meant() -> None:
    assert choose(TWO[:1], None, None, None, False) == TWO[:1]


def test_of_several_one_has_to_be_named() -> None:
    with pytest.raises(CommandError, match="2 brokers run here") as refused:
        choose(TWO, None, None, None, False)
    assert refused.value.exit_code == 2
    assert choose(TWO, None, None, None, True) == TWO
    assert choose(TWO, 9093, None, None, False) == TWO[1:]
    assert choose(TWO, None, Path("/data/1"), None, False) == TWO[:1]
    assert choose(TWO, None, None, 2, False) == TWO[1:]


def test_what_does_not_run_cannot_be_meant() -> None:
    with pytest.raises(CommandError, match="no such broker runs here; broker 1 on port 9092") as refused:
        choose(TWO, 1, None, None, False)
    assert refused.value.exit_code == 4
    with pytest.raises(CommandError, match="no broker of yours runs here"):
        choose([], None, None, None, True)
