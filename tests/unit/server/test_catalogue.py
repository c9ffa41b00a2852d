"""What is announced is what exists: each handler module is served, in Apache Kafka 4.3's versions, and says so."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from moldau.server import handlers
from moldau.server.handlers.catalogue import APIS
from moldau.server.registry import Api
from moldau.wire.apis import BETWEEN_BROKERS as BETWEEN_BROKERS_KEYS

MODULES = sorted(name for _, name, _ in pkgutil.iter_modules(handlers.__path__) if name != "catalogue")
BETWEEN_BROKERS = {"introduce_broker", "envelope", "broker_heartbeat", "alter_partition", "assign_replicas_to_dirs"}
OWN = {"introduce_broker", "alter_roles", "describe_roles"}
KAFKA = Path(__file__).parents[2] / "conformance/data/api_versions.tsv"


def api_of(module: str) -> Api:
    found: Api = importlib.import_module(f"moldau.server.handlers.{module}").API
    return found


def kafka_versions() -> dict[int, tuple[int, int]]:
    rows = [line.split("\t") for line in KAFKA.read_text().splitlines()[1:]]
    return {int(key): (int(first), int(last)) for key, _, first, last in rows}


def test_each_handler_module_is_in_the_catalogue_and_nothing_else() -> None:
    assert {api_of(module).key for module in MODULES} == set(APIS)


@pytest.mark.parametrize("module", MODULES)
def test_the_module_is_named_after_its_api(module: str) -> None:
    assert api_of(module).key.name.lower() == module


def test_what_brokers_say_among_themselves_is_not_for_clients() -> None:
    assert {module for module in MODULES if api_of(module).between_brokers} == BETWEEN_BROKERS
    assert {int(api_of(module).key) for module in BETWEEN_BROKERS} <= BETWEEN_BROKERS_KEYS


def test_what_is_not_kafkas_is_told_to_our_own_clients_alone() -> None:
    own = {module for module in MODULES if api_of(module).is_own or int(api_of(module).key) >= 20_000}
    assert own == OWN
    assert {module for module in OWN if not api_of(module).is_own} == OWN & BETWEEN_BROKERS


@pytest.mark.parametrize("module", [module for module in MODULES if module not in BETWEEN_BROKERS | OWN])
def test_all_versions_of_apache_kafka_are_announced(module: str) -> None:
    api = api_of(module)
    assert (api.first, api.last) == kafka_versions()[api.key]


@pytest.mark.parametrize("module", MODULES)
def test_the_head_comment_names_the_versions(module: str) -> None:
    api = api_of(module)
    head = importlib.import_module(f"moldau.server.handlers.{module}").__doc__ or ""
    numbers = {int(number) for number in re.findall(r"\b\d+\b", head.split("\n\n")[0])}
    assert {api.first, api.last} <= numbers


@pytest.mark.parametrize("module", MODULES)
def test_a_handler_answers_and_imports_no_other_handler(module: str) -> None:
    api = api_of(module)
    assert (api.handle is None) != (api.raw is None)
    source = Path(importlib.import_module(f"moldau.server.handlers.{module}").__file__ or "").read_text()
    assert "moldau.server.handlers" not in source
