"""Applying changes one by one gives the image that is built from all entries at once."""

from __future__ import annotations

from dataclasses import fields
from random import Random
from types import MappingProxyType
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.metadata import codec, paths
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta, apply, build
from moldau.metadata.store import Change, Changes, Listing, Versioned

NAMES = ("a", "b", "c.d")
INDEXES = range(4)

replicas = st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True)
partition_values = st.builds(
    lambda r, leader, epoch, adding: codec.encode_partition_entry(
        codec.PartitionEntry(tuple(r), tuple(r[:2]), leader, epoch, adding=adding)
    ),
    replicas,
    st.integers(-1, 3),
    st.integers(0, 9),
    st.sampled_from(((), (3,))),
)
# A topic is its id: each name has two of its own.
TOPIC_IDS = {name: [UUID(int=100 * number + n) for n in (1, 2)] for number, name in enumerate(NAMES, 1)}
settings_values = st.dictionaries(st.sampled_from(("retention.ms", "segment.ms")), st.text(max_size=3)).map(
    codec.encode_settings
)
broker_values = st.builds(
    lambda n, rack: codec.encode_broker(
        codec.BrokerEntry(UUID(int=n), (codec.Listener("PLAINTEXT", "host", n, "PLAINTEXT"),), rack)
    ),
    st.integers(1, 3),
    st.none() | st.just("r1"),
)
state_values = st.builds(codec.BrokerStateEntry, st.integers(0, 12), st.booleans(), st.booleans()).map(
    codec.encode_broker_state
)
controller_values = st.builds(codec.ControllerEntry, st.integers(-1, 3), st.integers(0, 9)).map(codec.encode_controller)


def put_or_delete(path: str, values: st.SearchStrategy[bytes]) -> st.SearchStrategy[tuple[str, bytes | None]]:
    return st.tuples(st.just(path), st.none() | values)


single_changes = st.one_of(
    *(
        put_or_delete(
            paths.topic(name), st.builds(codec.encode_topic, st.sampled_from(TOPIC_IDS[name]), st.integers(1, 4))
        )
        for name in NAMES
    ),
    *(put_or_delete(paths.partition(name, index), partition_values) for name in NAMES for index in INDEXES),
    *(put_or_delete(paths.topic_config(name), settings_values) for name in NAMES),
    put_or_delete(paths.broker_config(1), settings_values),
    put_or_delete(paths.broker_config(None), settings_values),
    put_or_delete(paths.group_config("g / é"), settings_values),
    put_or_delete(paths.client_metrics_config(".."), settings_values),
    put_or_delete(paths.broker(2), broker_values),
    put_or_delete(paths.broker_state(2), state_values),
    put_or_delete(paths.CONTROLLER, controller_values),
    put_or_delete(paths.FEATURES, st.dictionaries(st.just("x.version"), st.integers(0, 9)).map(codec.encode_features)),
    put_or_delete(paths.PRODUCER_IDS, st.integers(0, 9000).map(codec.encode_producer_ids)),
    put_or_delete(paths.CLUSTER, st.just(codec.encode_cluster("id"))),
    put_or_delete("/later/release", st.binary(max_size=3)),
)
commits = st.lists(st.lists(single_changes, min_size=1, max_size=8, unique_by=lambda change: change[0]), max_size=12)


def as_changes(entries: dict[str, Versioned], revision: int, commit: list[tuple[str, bytes | None]]) -> Changes:
    changes = []
    for path, value in commit:
        old = entries.get(path)
        if value is None:
            entries.pop(path, None)
            changes.append(Change(path, None))
            continue
        entry = (
            Versioned(value, old.version + 1, old.created, revision) if old else Versioned(value, 0, revision, revision)
        )
        entries[path] = entry
        changes.append(Change(path, entry))
    return Changes(revision, tuple(changes))


@settings(max_examples=300, deadline=None)
@given(commits)
def test_applying_equals_building(history: list[list[tuple[str, bytes | None]]]) -> None:
    entries: dict[str, Versioned] = {}
    image = EMPTY_IMAGE
    for revision, commit in enumerate(history, 1):
        changes = as_changes(entries, revision, commit)
        assert image.index is image.known_index
        old, (image, delta) = image, apply(image, changes)
        assert image == build(Listing(revision, MappingProxyType(entries)))
        assert image.known_index == build(Listing(revision, entries)).index
        assert image.topics_by_id.keys() == {topic.id for topic in image.topics.values()}
        assert_shares_what_did_not_change(old, image, {path for path, _ in commit})
        assert_delta_tells_all(old, image, delta)


@settings(max_examples=100, deadline=None)
@given(commits, st.randoms(use_true_random=False))
def test_the_order_in_which_entries_are_read_does_not_matter(
    history: list[list[tuple[str, bytes | None]]], random: Random
) -> None:
    entries: dict[str, Versioned] = {}
    for revision, commit in enumerate(history, 1):
        as_changes(entries, revision, commit)
    shuffled = list(entries.items())
    random.shuffle(shuffled)
    assert build(Listing(99, entries)) == build(Listing(99, dict(shuffled)))


def assert_shares_what_did_not_change(old: ClusterImage, new: ClusterImage, touched: set[str]) -> None:
    for name, topic in new.topics.items():
        prefix = paths.topic(name)
        if not any(
            path == prefix or path.startswith(prefix + "/") or path == paths.topic_config(name) for path in touched
        ):
            assert topic is old.topics[name]
        elif name in old.topics:
            for index, partition in enumerate(topic.partitions[: len(old.topics[name].partitions)]):
                if paths.partition(name, index) not in touched:
                    assert partition is old.topics[name].partitions[index]
    if not any(path.startswith((paths.TOPICS, paths.TOPIC_CONFIGS)) for path in touched):
        assert new.topics is old.topics
        assert new.topics_by_id is old.topics_by_id


def assert_delta_tells_all(old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
    kept = new.topics_by_id.keys() & old.topics_by_id.keys()
    assert {topic.id for topic in delta.created} == new.topics_by_id.keys() - kept
    assert {topic.id for topic in delta.deleted} == old.topics_by_id.keys() - kept
    changed = {topic_id for topic_id in kept if old.topics_by_id[topic_id] != new.topics_by_id[topic_id]}
    assert {change.new.id for change in delta.changed} == changed
    for change in delta.changed:
        assert change.old is old.topics[change.new.name]
        assert change.partitions == differing_partitions(change.old, change.new)
        assert change.settings_changed == (change.old.settings != change.new.settings)
    for field in ("brokers", "broker_settings", "group_settings", "client_metrics_settings"):
        was, now = getattr(old, field), getattr(new, field)
        assert getattr(delta, field) == {key for key in {*was, *now} if was.get(key) != now.get(key)}
    assert delta.default_broker_settings == (old.default_broker_settings != new.default_broker_settings)
    assert delta.features == (old.features != new.features)
    assert delta.controller == (old.controller != new.controller)
    untold = {"version", "loose", "producer_ids", "cluster_id", "broker_states"}
    parts = {field.name for field in fields(ClusterImage) if field.compare} - untold
    assert delta.is_empty == all(getattr(old, part) == getattr(new, part) for part in parts)


def differing_partitions(old: TopicImage, new: TopicImage) -> tuple[int, ...]:
    return tuple(
        index
        for index, partition in enumerate(new.partitions)
        if index >= len(old.partitions) or partition != old.partitions[index]
    )
