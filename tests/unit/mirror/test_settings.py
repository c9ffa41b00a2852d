"""MirrorMaker 2's property file: what it means, and everything that is wrong with it at once."""

from __future__ import annotations

import pytest

from moldau.mirror.settings import MirrorSettingsError, read_settings

TWO = {"clusters": "us, eu", "us.bootstrap.servers": "us1:9092", "eu.bootstrap.servers": "eu1:9092"}


def test_a_pair_has_its_own_settings_before_those_of_its_target_and_of_all() -> None:
    found = read_settings(
        TWO
        | {
            "us->eu.enabled": "true",
            "eu->us.enabled": "true",
            "topics": "orders.*, returns",
            "eu->us.topics": "eu-.*",
            "replication.factor": "1",
            "us.replication.factor": "3",
        }
    )
    there, back = found.flow("us->eu"), found.flow("eu->us")
    assert there.copies("orders-2") and there.copies("returns") and not there.copies("eu-orders")
    assert back.copies("eu-orders") and not back.copies("orders")
    assert (there.number("replication.factor"), back.number("replication.factor")) == (1, 3)


def test_a_pair_that_is_not_enabled_has_only_a_heartbeat() -> None:
    found = read_settings(TWO | {"us->eu.enabled": "true"})
    assert [(flow.name, flow.enabled) for flow in found.flows] == [("us->eu", True), ("eu->us", False)]
    assert [flow.name for flow in found.copying] == ["us->eu"]


def test_connections_have_what_is_common_what_is_the_clusters_and_what_is_for_their_role() -> None:
    found = read_settings(
        TWO
        | {
            "us->eu.enabled": "true",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "us.sasl.username": "reader",
            "eu.sasl.username": "writer",
            "us.consumer.auto.offset.reset": "latest",
            "us->eu.producer.client.id": "mirror",
        }
    )
    flow = found.flow("us->eu")
    assert flow.reading["sasl.username"] == "reader" and flow.reading["auto.offset.reset"] == "latest"
    assert flow.writing["sasl.username"] == "writer" and flow.writing["client.id"] == "mirror"
    assert flow.writing["bootstrap.servers"] == "eu1:9092"


def test_what_is_left_out_by_default() -> None:
    flow = read_settings(TWO | {"us->eu.enabled": "true"}).flow("us->eu")
    left_out = ["__consumer_offsets", "mm2-offsets.us.internal", "connect-status-internal", "old.replica", "eu.orders"]
    assert [name for name in left_out if flow.copies(name)] == []
    assert flow.copies("heartbeats") and flow.copies("asia.orders")


def test_heartbeats_are_copied_even_where_topics_do_not_name_them() -> None:
    named = TWO | {"us->eu.enabled": "true", "topics": "orders"}
    assert read_settings(named).flow("us->eu").copies("heartbeats")
    assert not read_settings(named | {"heartbeats.replication.enabled": "false"}).flow("us->eu").copies("heartbeats")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(MirrorSettingsError) as caught:
        read_settings(
            {
                "clusters": "us, eu",
                "us.bootstrap.servers": "us1:9092",
                "us->eu.enabled": "yes",
                "us->eu.topics": "(",
                "eu->us.tasks.max": "0",
                "replication.policy.class": "com.example.MyPolicy",
                "offset-syncs.topic.location": "middle",
            }
        )
    told = "\n".join(caught.value.problems)
    for part in (
        "eu.bootstrap.servers: is missing",
        "us->eu.enabled: Expected value to be either true or false",
        "us->eu.topics: '(' is no regular expression",
        "eu->us.tasks.max: at least 1",
        "com.example.MyPolicy cannot be run here, it is Java",
        "offset-syncs.topic.location: source or target",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "the aliases of two clusters or more are needed"),
        (TWO, "no flow is enabled: set us->eu.enabled = true"),
        (TWO | {"clusters": "us, e u"}, "'e u' is no alias"),
    ],
)
def test_a_file_that_says_nothing_to_do_is_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(MirrorSettingsError, match=problem):
        read_settings(properties)


def test_only_flows_into_the_named_clusters() -> None:
    both = TWO | {"us->eu.enabled": "true", "eu->us.enabled": "true"}
    found = read_settings(both, ["eu"])
    assert [flow.name for flow in found.flows] == ["us->eu"] and len(found.known) == 2
    with pytest.raises(MirrorSettingsError, match="--clusters: asia is none of us, eu"):
        read_settings(both, ["asia"])


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("topic.exclude", "topic.exclude is no setting; topics.exclude?"),
        ("us->eu.refresh.topcs.enabled", None),
        ("us->asia.enabled", "us->asia.enabled: names a cluster that clusters does not list"),
        (
            "topic.filter.class",
            "topic.filter.class: a Java class cannot be run here; topics, groups and their .exclude choose",
        ),
        ("us->eu.emit.checkpoint.enabled", "us->eu.emit.checkpoint.enabled is no setting; emit.checkpoints.enabled?"),
        ("us.linger.ms", None),
        ("config.storage.replication.factor", None),
        ("ssl.truststore.location", None),
    ],
)
def test_what_nobody_reads_is_told(key: str, warning: str | None) -> None:
    found = read_settings(TWO | {"us->eu.enabled": "true", key: "x"})
    assert found.warnings == ((warning,) if warning else ())


def test_topics_have_javas_names() -> None:
    flow = read_settings(TWO | {"us->eu.enabled": "true"}).flow("us->eu")
    assert flow.positions_topic == "mm2-offsets.us.internal"
    assert flow.syncs_topic == "mm2-offset-syncs.eu.internal"
    at_target = read_settings(TWO | {"us->eu.enabled": "true", "offset-syncs.topic.location": "target"}).flow("us->eu")
    assert at_target.syncs_topic == "mm2-offset-syncs.us.internal"
    assert flow.policy.checkpoints(flow.source) == "us.checkpoints.internal"
