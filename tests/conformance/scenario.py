"""What a scenario is, and where all of them are found."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.conformance.messages import api as announced
from tests.conformance.session import Session

Script = Callable[[Session, int], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script of requests that is played once for each version of one API, on topics of its own."""

    name: str
    api: str
    versions: tuple[int, ...]
    script: Script
    restarts: bool = False
    """Restarts the broker, which raises leader epochs and those of coordinators for all that come after."""
    guarded: bool = False
    """Is played on a broker with an authorizer."""


_registry: dict[str, Scenario] = {}


def scenario(
    api: str, versions: Iterable[int] | None = None, *, restarts: bool = False, guarded: bool = False
) -> Callable[[Script], Script]:
    """Register a script under its function's name, for every version that Apache Kafka serves or for those given."""

    def register(script: Script) -> Script:
        name = script.__name__.replace("_", "-")
        if name in _registry:
            raise ValueError(f"two scenarios are called {name}")
        chosen = announced(api).versions if versions is None else versions
        _registry[name] = Scenario(name, api, tuple(chosen), script, restarts, guarded)
        return script

    return register


@functools.cache
def all_scenarios() -> Mapping[str, Scenario]:
    """By name, in the order in which they are played: those that restart the broker come last."""
    package = importlib.import_module(".scenarios", __package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return {each.name: each for each in sorted(_registry.values(), key=lambda each: (each.restarts, each.name))}


def chosen_scenarios(patterns: Sequence[str]) -> Sequence[Scenario]:
    """Scenarios whose name contains one of the patterns; all of them if there is no pattern."""
    return [s for s in all_scenarios().values() if not patterns or any(pattern in s.name for pattern in patterns)]
