"""Connections that are kept from one task to the next."""

from __future__ import annotations

import os

import pytest

from moldau.client.settings import Address, ClientSettings
from moldau.spark.fetching.pool import MOST_IDLE, borrow, close_idle, give_back


def test_a_cluster_is_lent_to_one_at_a_time() -> None:
    settings = ClientSettings((Address("pool", 1),))
    first, second = borrow(settings), borrow(settings)
    assert first is not second
    give_back(first)
    assert borrow(settings) is first
    assert borrow(ClientSettings((Address("pool", 2),))) is not first


def test_few_are_kept() -> None:
    settings = ClientSettings((Address("pool", 3),))
    lent = [borrow(settings) for _ in range(MOST_IDLE + 2)]
    for each in lent:
        give_back(each)
    again = [borrow(settings) for _ in lent]
    assert sum(each in lent for each in again) == MOST_IDLE


def test_a_forked_process_does_not_touch_its_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ClientSettings((Address("pool", 4),))
    parents = borrow(settings)
    give_back(parents)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert borrow(settings) is not parents


def test_what_is_idle_is_closed_at_the_end_but_not_by_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ClientSettings((Address("pool", 5),))
    idle = borrow(settings)
    closed: list[str] = []
    monkeypatch.setattr(idle, "close", lambda: closed.append("closed"))
    give_back(idle)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        close_idle()
    assert closed == []
    close_idle()
    assert closed == ["closed"]
    assert borrow(settings) is not idle
