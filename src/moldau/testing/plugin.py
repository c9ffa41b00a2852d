"""The pytest plug-in: a broker for tests that take it as an argument.

    def test_orders_arrive(moldau_broker, moldau_topic):
        with moldau_broker.producer() as producer:
            producer.send(moldau_topic, b"tea").result()
        assert moldau_broker.values(moldau_topic, 1) == [b"tea"]

`moldau_registry` is a schema registry beside it. They live as long as the test
run (one each for each worker of pytest-xdist), or, with `moldau_scope = function` in pytest's settings, as long as one
test. `--moldau-bootstrap HOST:PORT` runs the same tests on a Kafka that runs already, `--moldau-registry URL` with a
registry that does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from moldau.testing.brokers import Broker, Running
from moldau.testing.registries import Registry, RunningRegistry

SCOPES = ("session", "package", "module", "class", "function")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("moldau", "a Kafka broker for tests")
    group.addoption(
        "--moldau-bootstrap",
        metavar="HOST:PORT",
        help="use the Kafka that runs there instead of starting Moldau (setting moldau_bootstrap)",
    )
    group.addoption(
        "--moldau-registry",
        metavar="URL",
        help="use the schema registry that runs there instead of starting one (setting moldau_registry)",
    )
    parser.addini("moldau_registry", "address of a running schema registry, instead of starting one", default="")
    parser.addini("moldau_registry_settings", "settings of the registry, one name=value a line", "linelist", default=[])
    parser.addini("moldau_bootstrap", "address of a running Kafka, instead of starting Moldau", default="")
    parser.addini("moldau_scope", "how long one broker lives: session, module, function, …", default="session")
    parser.addini("moldau_settings", "settings of the broker, one name=value a line", type="linelist", default=[])


def broker_scope(
    fixture_name: str, config: pytest.Config
) -> Literal["session", "package", "module", "class", "function"]:
    scope = config.getini("moldau_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"moldau_scope is {scope!r}; expected one of {', '.join(SCOPES)}")
    return scope  # type: ignore[no-any-return]


@pytest.fixture(scope=broker_scope)
def moldau_broker(request: pytest.FixtureRequest) -> Iterator[Broker | Running]:
    """A broker: `bootstrap`, `properties`, `producer()`, `consumer()`, `admin()`, `topic()`, `values()`."""
    config = request.config
    running = config.getoption("--moldau-bootstrap") or config.getini("moldau_bootstrap")
    if running:
        yield Running(running)
        return
    with Broker(settings_of(config, "moldau_settings")) as broker:
        yield broker


def settings_of(config: pytest.Config, name: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in config.getini(name)]
    return {name.strip(): value.strip() for name, _, value in pairs}


@pytest.fixture(scope=broker_scope)
def moldau_registry(
    request: pytest.FixtureRequest, moldau_broker: Broker | Running
) -> Iterator[Registry | RunningRegistry]:
    """A schema registry: `url`, `properties`, `client()`, `register()`."""
    config = request.config
    running = config.getoption("--moldau-registry") or config.getini("moldau_registry")
    if running:
        yield RunningRegistry(running)
        return
    with Registry(moldau_broker.bootstrap, settings_of(config, "moldau_registry_settings")) as registry:
        yield registry


@pytest.fixture
def moldau_topic(moldau_broker: Broker | Running) -> str:
    """The name of a new topic with one partition."""
    return moldau_broker.topic()
