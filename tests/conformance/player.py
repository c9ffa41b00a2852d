"""Plays scenarios against a broker that is already up."""

from tests.conformance.recording import Answers
from tests.conformance.scenario import Scenario
from tests.conformance.session import Session, new_tag
from tests.conformance.wire_client import WireClient
from tests.support.process import BrokerProcess


def play(scenario: Scenario, version: int, broker: BrokerProcess) -> Answers:
    """The normalised answers, by step. Raises AssertionError if the broker does not let the scenario set itself up."""
    host, port = broker.address.rsplit(":", 1)
    client = WireClient(host, int(port))
    try:
        session = Session.start(scenario.name, version, client, new_tag(), broker.restart)
        scenario.script(session, version)
        return session.answers
    finally:
        client.close()
