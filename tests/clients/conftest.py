"""Brokers for the client tests.

`broker` is one broker for the whole run (of an xdist worker); tests keep apart by using topics of their own.
`own_broker` starts further ones with settings of their own, in folders the test may look into.

The same tests can judge another broker, which is how they are validated:
    MOLDAU_TEST_PEER=apache      Apache Kafka 4.3 from its jars takes the place of every broker
    MOLDAU_TEST_BOOTSTRAP=H:P    a running broker takes the place of `broker`; tests that start their own are left out
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient

from tests.peers.choice import new_broker
from tests.peers.java_programs import CLIENTS, can_run
from tests.support.admin import admin_client
from tests.support.names import own_name
from tests.support.process import BrokerProcess, free_port

BOOTSTRAP = os.environ.get("MOLDAU_TEST_BOOTSTRAP")
JAVA_LOOPS = {"test_java_loops.py"}
OWN_BROKER_FIXTURES = {"own_broker", "data"}

StartBroker = Callable[..., BrokerProcess]
started: list[BrokerProcess] = []


class Addressed(Protocol):
    """All that most tests need of a broker."""

    address: str


class RunningElsewhere:
    """A broker that somebody else started."""

    def __init__(self, address: str) -> None:
        self.address = address


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addressed]:
    if BOOTSTRAP is not None:
        yield RunningElsewhere(BOOTSTRAP)
        return
    process = new_broker(tmp_path_factory.mktemp("broker"), {})
    started.append(process)
    process.start()
    yield process
    code = process.stop()
    assert code == 0, f"the shared broker ended with {code}\n{process.output()}"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts a broker of the test's own: `own_broker(**{"log.segment.bytes": 1048576})`."""
    mine: list[BrokerProcess] = []

    def start(**settings: object) -> BrokerProcess:
        process = new_broker(tmp_path / f"broker-{len(mine)}", settings, free_port())
        mine.append(process)
        started.append(process)
        process.start()
        return process

    yield start
    for process in mine:
        process.kill()
        started.remove(process)


@pytest.fixture
def data(broker: Addressed) -> Path:
    """The shared broker's log directory."""
    assert isinstance(broker, BrokerProcess)
    return broker.data


@pytest.fixture
def address(broker: Addressed) -> str:
    return broker.address


@pytest.fixture
def admin(address: str) -> AdminClient:
    return admin_client(address)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses; the topic does not exist yet."""
    return own_name(request.node.name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what cannot run here, and says so; nothing is skipped silently."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    left_out: dict[str, list[pytest.Item]] = {}
    if BOOTSTRAP is not None:
        reason = "needs a broker of its own, and MOLDAU_TEST_BOOTSTRAP names a foreign one"
        left_out[reason] = [item for item in here if OWN_BROKER_FIXTURES & set(getattr(item, "fixturenames", ()))]
    # kcat comes as a system package only. Root's set-up installs it, so there its absence is a fault and the tests
    # fail; an ordinary user cannot install it and must still get a passing run.
    if shutil.which("kcat") is None and os.geteuid() != 0:
        reason = "kcat is not installed and only root can install it (Debian: apt-get install kcat)"
        left_out[reason] = [item for item in here if item.path.name == "test_kcat.py"]
    # The same holds for Maven, which fetches the jars of Java's client.
    if not can_run(CLIENTS):
        reason = "mvn is not installed and only root can install it (Debian: apt-get install maven)"
        left_out[reason] = [item for item in here if item.path.name in JAVA_LOOPS]
    for reason, dropped in left_out.items():
        if dropped:
            items[:] = [item for item in items if item not in dropped]
            config.hook.pytest_deselected(items=dropped)
            config.stash.setdefault(REASONS, []).append(f"{len(dropped)} client tests left out: {reason}")


REASONS = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason in config.stash.get(REASONS, []):
        terminalreporter.write_line(reason, yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the end of what the brokers printed."""
    report = yield
    if report.failed:
        report.sections.extend((f"{process.name} {process.address}", process.output()) for process in started)
    return report
