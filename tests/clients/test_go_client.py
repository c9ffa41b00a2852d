"""franz-go, a client in Go that pipelines: members of groups that copy a topic in short transactions.

Its program is tests/peers/go; `go` builds it, with the modules from the proxy that it is set to.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.test_java_loops import copied_by_groups
from tests.peers.go_programs import run

pytestmark = pytest.mark.live


def test_members_of_every_protocol_copy_in_short_transactions(address: str, admin: AdminClient, topic: str) -> None:
    copied_by_groups(address, admin, topic, lambda arguments: run("copy", *arguments))
