"""The tables of settings say `honoured` of a setting exactly where the broker's code asks for it."""

from __future__ import annotations

import ast

import pytest

from moldau.config.definition import Settings
from moldau.config.synonyms import TOPIC_TO_BROKER, topic_synonyms
from moldau.config.tables import broker_settings, group_settings, topic_settings
from moldau.metadata.controller.config_resources import GROUP_BOUNDS
from tests.tidy.tree import SOURCE, python_files, tree_of

BROKER_FOLDERS = {"config", "server", "replication", "storage", "metadata", "coordinators", "security", "tls"}
#: Which name stands in for which, what may change while the broker runs, what other clusters had: naming is no use.
BOOKKEEPING = {"config/synonyms.py", "config/dynamic_updates.py", "metadata/adoption/plan.py"}
NAMED_ONLY = {
    "process.roles": "Kafka's demand that it be set is met with a default",
    "cordoned.log.dirs": "checked as Kafka checks it",
    "remote.storage.enable": "what it would forbid of other settings is checked",
}
#: The form of a store is seen from its contents, and what TLS towards ZooKeeper is made of stands in other settings:
#: each of these has what it says without being asked.
STORE_TYPES = {f"{prefix}ssl.{store}.type" for prefix in ("", "zookeeper.") for store in ("keystore", "truststore")}
NOT_ASKED = STORE_TYPES | {"ssl.protocol", "zookeeper.clientCnxnSocket", "zookeeper.ssl.protocol"}


def names_in_code() -> set[str]:
    """Every attribute and every text of the broker's modules; attributes stand for settings with dots."""
    found: set[str] = set()
    for path in python_files("src"):
        if SOURCE not in path.parents:
            continue
        place = path.relative_to(SOURCE)
        if place.parts[0] not in BROKER_FOLDERS or place.as_posix() in BOOKKEEPING:
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute):
                found.add(node.attr.replace("_", "."))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@pytest.fixture(scope="module")
def used() -> set[str]:
    found = names_in_code() - NAMED_ONLY.keys()
    # What a topic obeys its broker obeys as the default; limits of groups are put together from parts.
    found |= {name for topic in TOPIC_TO_BROKER if topic in found for name in topic_synonyms(topic)}
    bounds = ((pattern, ends) for name, pattern, ends in GROUP_BOUNDS if group_settings()[name].honoured)
    return found | NOT_ASKED | {pattern.format(end) for pattern, ends in bounds for end in ends.split()}


@pytest.mark.parametrize("settings", [broker_settings(), topic_settings()], ids=["broker", "topic"])
def test_what_is_told_of_settings_is_what_the_code_does(settings: Settings, used: set[str]) -> None:
    silent = sorted(name for name, each in settings.items() if each.honoured and name not in used)
    denied = sorted(name for name, each in settings.items() if not each.honoured and name in used)
    assert silent == [], "said to be honoured, but no code asks for it"
    assert denied == [], "said to have no effect, but code asks for it"


def test_nothing_is_excused_that_is_not_named() -> None:
    named = names_in_code()
    assert NAMED_ONLY.keys() <= named
    assert not NOT_ASKED & named
