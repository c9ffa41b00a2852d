"""Moldau answers every scenario at every version as Apache Kafka 4.3 did when it was recorded."""

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from moldau.server.handlers.catalogue import APIS
from tests.conformance import recording
from tests.conformance.brokers import moldau
from tests.conformance.known_differences import unexplained
from tests.conformance.messages import api
from tests.conformance.player import play
from tests.conformance.scenario import Scenario, all_scenarios
from tests.conformance.scenarios.connections import APIS_SERVED
from tests.support.process import BrokerProcess


def plays(guarded: bool) -> list[ParameterSet]:
    return [
        pytest.param(scenario, version, id=f"{scenario.name}-v{version}")
        for scenario in all_scenarios().values()
        if scenario.guarded is guarded
        for version in scenario.versions
    ]


PLAYS, GUARDED_PLAYS = plays(guarded=False), plays(guarded=True)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with moldau(tmp_path_factory.mktemp("conformance")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with moldau(tmp_path_factory.mktemp("guarded"), guarded=True) as running:
        yield running


@pytest.mark.parametrize(("scenario", "version"), PLAYS)
def test_answers_as_recorded(broker: BrokerProcess, scenario: Scenario, version: int) -> None:
    answers_as_recorded(broker, scenario, version)


@pytest.mark.parametrize(("scenario", "version"), GUARDED_PLAYS)
def test_answers_as_recorded_with_an_authorizer(
    guarded_broker: BrokerProcess, scenario: Scenario, version: int
) -> None:
    answers_as_recorded(guarded_broker, scenario, version)


def answers_as_recorded(broker: BrokerProcess, scenario: Scenario, version: int) -> None:
    answers = play(scenario, version, broker)
    expected = recording.load(recording.RECORDED, scenario.name, version)
    differences = unexplained(scenario.name, recording.compare(expected, answers))
    assert not differences, "\n".join(["the answers differ:", *map(str, differences)])


def test_every_recording_belongs_to_a_scenario() -> None:
    recorded = {path.stem for path in recording.RECORDED.glob("*.json")}
    assert recorded == set(all_scenarios())


@pytest.mark.parametrize("name", APIS_SERVED)
def test_every_api_is_asked_at_every_version(name: str) -> None:
    played = {
        version
        for scenario in all_scenarios().values()
        if scenario.api == name and not scenario.name.startswith("malformed-")
        for version in scenario.versions
    }
    assert set(api(name).versions) <= played


def test_the_list_of_served_apis_is_complete() -> None:
    """What is missing in it would be excused as not served."""
    for_clients = {key for key, served in APIS.items() if not served.between_brokers and not served.is_own}
    assert for_clients == {api(name).key for name in APIS_SERVED}
