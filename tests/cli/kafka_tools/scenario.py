"""A scenario: commands one after the other on a broker of its own, and what holds the broker's state meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scenario is played."""

    address: str
    data: Path
    files: Path


@dataclass(frozen=True, slots=True)
class Step:
    """One command. `{servers}`, `{data}` and `{files}` are filled in; `servers` False leaves out --bootstrap-server."""

    tool: str
    arguments: str = ""
    stdin: str = ""
    servers: bool = True
    in_order: bool = True
    """Whether the order of lines is part of what is compared: Java's tools often print from hash maps."""
    figures: bool = False
    """Whether numbers are measured, so that only their places are compared."""
    errors: bool = True
    """Whether standard error is compared."""

    @property
    def name(self) -> str:
        return f"{self.tool} {self.arguments}".strip()


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    steps: tuple[Step, ...]
    files: dict[str, str] = field(default_factory=dict)
    """Files that the commands read, by name below `{files}`."""
    held: Callable[[Place], AbstractContextManager[None]] | None = None
    """Made before the first step and ended after the last: records, members of groups, open transactions."""
    brokers: int = 1
    """With more than one it is played on a cluster, in tests/cluster."""
    settings: dict[str, str] = field(default_factory=dict)
    """What its broker is told besides."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str,
    *steps: Step,
    files: dict[str, str] | None = None,
    held: Callable[[Place], AbstractContextManager[None]] | None = None,
    brokers: int = 1,
    settings: dict[str, str] | None = None,
) -> Scenario:
    made = SCENARIOS[name] = Scenario(name, steps, files or {}, held, brokers, settings or {})
    return made


def all_scenarios() -> Iterator[Scenario]:
    from tests.cli.kafka_tools import (  # noqa: F401
        scenarios_access,
        scenarios_admin,
        scenarios_cluster,
        scenarios_groups,
        scenarios_moves,
        scenarios_records,
    )

    yield from SCENARIOS.values()
