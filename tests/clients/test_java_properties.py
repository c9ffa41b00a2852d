"""The recorded names of Kafka's client properties are those of Kafka's jars. `make conformance` runs this."""

from __future__ import annotations

import pytest

from tests.peers.java_properties import listed_properties, recorded_properties

pytestmark = pytest.mark.live


def test_the_record_is_that_of_kafkas_jars() -> None:
    assert listed_properties() == recorded_properties()
