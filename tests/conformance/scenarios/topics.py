"""CreateTopics, DeleteTopics, CreatePartitions."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.metadata import UNKNOWN_ID
from tests.conformance.session import Session, as_uuid


def _creatable(name: str, partitions: int = 1, replication: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replication, **more}


def _configs(**values: str | None) -> list[dict[str, Any]]:
    return [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]


def _shape(s: Session, step: str, name: str) -> None:
    """Record what became of a topic, in a version that shows all of it."""
    asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    s.until(lambda: s.is_known(name), f"creation of {name}")
    s.ask(step, "metadata", asked, version=12)


@scenario("create_topics")
def create_topics(s: Session, version: int) -> None:
    def ask(step: str, *topics: dict[str, Any], **more: Any) -> None:
        s.ask(step, "create_topics", {"topics": list(topics), "timeout": 10_000, **more})

    first = s.topic_name("a")
    ask("two partitions", _creatable(first, 2))
    _shape(s, "shape of two partitions", first)
    ask("exists already", _creatable(first, 2))
    ask("exists already, only validated", _creatable(first, 2), validate_only=True)
    ask("two topics", _creatable(s.topic_name("b")), _creatable(s.topic_name("c"), 3))
    ask("one good, one bad", _creatable(s.topic_name("d")), _creatable("bad name"), _creatable(first))
    ask("the same topic twice", _creatable(s.topic_name("e")), _creatable(s.topic_name("e")))
    ask(
        "twice and another", _creatable(s.topic_name("e")), _creatable(s.topic_name("f")), _creatable(s.topic_name("e"))
    )
    ask("only validated", _creatable(s.topic_name("g"), 5), validate_only=True)
    s.ask("validated is not created", "metadata", {
        "topics": [{"name": s.topic_name("g")}], "allow_auto_topic_creation": False,
    }, version=12)  # fmt: skip
    ask("defaults", _creatable(s.topic_name("h"), -1, -1))
    ask("default partitions", _creatable(s.topic_name("i"), -1, 1))
    ask("default replication", _creatable(s.topic_name("j"), 2, -1))
    ask("nothing")
    s.ask("null list", "create_topics", {"topics": None, "timeout": 10_000})


@scenario("create_topics")
def create_topics_with_wrong_shape(s: Session, version: int) -> None:
    def ask(step: str, **topic: Any) -> None:
        wanted = {"name": s.topic_name(step.replace(" ", "-").replace(",", "")[:40]), **topic}
        s.ask(step, "create_topics", {"topics": [wanted], "timeout": 10_000})

    for partitions in (0, -2, -100):
        ask(f"partitions {partitions}", num_partitions=partitions, replication_factor=1)
    for replication in (0, 2, 3, -2, 32767):
        ask(f"replication {replication}", num_partitions=1, replication_factor=replication)
    ask("partitions and replication wrong", num_partitions=0, replication_factor=5)

    def assign(step: str, *assignments: tuple[int, list[int]], partitions: int = -1, replication: int = -1) -> None:
        rows = [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments]
        ask(step, num_partitions=partitions, replication_factor=replication, assignments=rows)

    assign("assigned", (0, [1]), (1, [1]))
    assign("assigned in other order", (1, [1]), (0, [1]))
    assign("assigned and counted", (0, [1]), partitions=1)
    assign("assigned and replicated", (0, [1]), replication=1)
    assign("assigned from one", (1, [1]))
    assign("assigned with a gap", (0, [1]), (2, [1]))
    assign("assigned negative", (-1, [1]))
    assign("assigned twice", (0, [1]), (0, [1]))
    assign("assigned to an unknown broker", (0, [7]))
    assign("assigned to a broker twice", (0, [1, 1]))
    assign("assigned to nobody", (0, []))
    assign("assigned to a negative broker", (0, [-1]))
    assign("assigned unevenly", (0, [1]), (1, [1, 2]))


@scenario("create_topics")
def create_topics_with_names(s: Session, version: int) -> None:
    def ask(step: str, name: str) -> None:
        s.ask(step, "create_topics", {"topics": [_creatable(name)], "timeout": 10_000})

    for label, name in (
        ("space", "a b"), ("slash", "a/b"), ("comma", "a,b"), ("dot", "."), ("two dots", ".."), ("empty", ""),
        ("too long", "x" * 250), ("umlaut", "größe"), ("line break", "a\nb"), ("nul", "a\x00b"), ("star", "*"),
    ):  # fmt: skip
        ask(label, name)
    prefix = s.topic_name("")
    ask("longest", prefix + "y" * (249 - len(prefix)))
    ask("three dots", s.topic_name("..."))
    ask("with dot", s.topic_name("m.n"))
    s.until(lambda: s.is_known(s.topic_name("m.n")), "creation")
    ask("collides with dot", s.topic_name("m_n"))
    ask("metadata log", "__cluster_metadata")


@scenario("create_topics")
def create_topics_with_configs(s: Session, version: int) -> None:
    def ask(step: str, *configs: dict[str, Any], validate_only: bool = False) -> None:
        topic = _creatable(s.topic_name(step.replace(" ", "-")), configs=list(configs))
        s.ask(step, "create_topics", {"topics": [topic], "timeout": 10_000, "validate_only": validate_only})

    ask("good", *_configs(retention_ms="1000", cleanup_policy="compact,delete", segment_bytes="1048576"))
    ask("unknown", *_configs(no_such_setting="1"))
    ask("null value", *_configs(retention_ms=None))
    ask("twice", *_configs(retention_ms="1"), *_configs(retention_ms="2"))
    ask("one bad of two", *_configs(retention_ms="1000", segment_bytes="abc"))
    ask("bad and validated", *_configs(retention_ms="abc"), validate_only=True)
    for key, value in BAD_TOPIC_CONFIGS:
        ask(f"{key} is {value or 'empty'}", {"name": key, "value": value})


BAD_TOPIC_CONFIGS = (
    ("retention.ms", "abc"), ("retention.ms", "-2"), ("retention.ms", ""), ("retention.ms", " 5 "),
    ("retention.ms", "1.5"), ("retention.ms", "99999999999999999999"), ("retention.bytes", "-2"),
    ("segment.bytes", "13"), ("segment.bytes", "3000000000"), ("segment.ms", "0"), ("cleanup.policy", "foo"),
    ("cleanup.policy", ""), ("cleanup.policy", "delete,foo"), ("cleanup.policy", "delete,delete"),
    ("min.insync.replicas", "0"), ("min.insync.replicas", "x"), ("max.message.bytes", "-1"),
    ("message.timestamp.type", "Whenever"), ("compression.type", "brotli"), ("compression.gzip.level", "10"),
    ("compression.lz4.level", "0"), ("compression.zstd.level", "23"), ("message.timestamp.before.max.ms", "-1"),
    ("min.cleanable.dirty.ratio", "1.5"), ("min.cleanable.dirty.ratio", "x"),
    ("unclean.leader.election.enable", "yes"), ("preallocate", "TRUE"), ("flush.messages", "0"),
    ("min.compaction.lag.ms", "-1"), ("max.compaction.lag.ms", "0"), ("delete.retention.ms", "-1"),
    ("file.delete.delay.ms", "-1"), ("index.interval.bytes", "-1"), ("segment.index.bytes", "3"),
    ("segment.jitter.ms", "-1"), ("leader.replication.throttled.replicas", "abc"),
    ("leader.replication.throttled.replicas", "*"), ("leader.replication.throttled.replicas", "0:1,1:1"),
    ("remote.storage.enable", "true"), ("local.retention.ms", "5000"), ("local.retention.ms", "99999999999"),
    ("message.format.version", "2.0"), ("internal.segment.bytes", "1024"),
)  # fmt: skip


@scenario("delete_topics")
def delete_topics(s: Session, version: int) -> None:
    def ask(step: str, *names: str | None) -> None:
        by_state = [{"name": name} for name in names]
        s.ask(step, "delete_topics", {"topic_names": list(names), "topics": by_state, "timeout": 10_000})

    a, b, c = (s.create(label).name for label in "abc")
    ask("one topic", a)
    s.until(lambda: not s.is_known(a), f"deletion of {a}")
    ask("again", a)
    s.ask("is gone", "metadata", {"topics": [{"name": a}], "allow_auto_topic_creation": False}, version=12)
    s.create("a", 2)
    s.ask("new incarnation", "metadata", {"topics": [{"name": a}], "allow_auto_topic_creation": False}, version=12)
    ask("known and unknown", b, s.topic_name("missing"))
    ask("a topic twice", c, c)
    ask("illegal name", "a b")
    ask("empty name", "")
    ask("nothing")
    s.ask("null list", "delete_topics", {"topic_names": None, "topics": None, "timeout": 10_000})


@scenario("delete_topics", versions=[6])
def delete_topics_by_id(s: Session, version: int) -> None:
    def ask(step: str, *topics: dict[str, Any]) -> None:
        s.ask(step, "delete_topics", {"topics": list(topics), "timeout": 10_000})

    a, b, c = (s.create(label) for label in "abc")
    by_id = {"name": None, "topic_id": as_uuid(a.id)}
    ask("by id", by_id)
    s.until(lambda: not s.is_known(a.name), "deletion")
    ask("by id again", by_id)
    ask("unknown id", {"name": None, "topic_id": UNKNOWN_ID})
    ask("neither", {"name": None, "topic_id": None})
    ask("both", {"name": b.name, "topic_id": as_uuid(b.id)})
    ask("by id and by name", {"name": None, "topic_id": as_uuid(b.id)}, {"name": b.name, "topic_id": None})
    ask("an id twice", {"name": None, "topic_id": as_uuid(c.id)}, {"name": None, "topic_id": as_uuid(c.id)})


@scenario("create_partitions")
def create_partitions(s: Session, version: int) -> None:
    topic = s.create("a", 2).name

    def ask(step: str, name: str, count: int, assignments: list[list[int]] | None = None, **more: Any) -> None:
        rows = None if assignments is None else [{"broker_ids": brokers} for brokers in assignments]
        wanted = {"name": name, "count": count, "assignments": rows}
        s.ask(step, "create_partitions", {"topics": [wanted], "timeout": 10_000, **more})

    ask("one more", topic, 3)
    s.until(lambda: s.is_served(topic, 3), "a third partition")
    s.ask("three now", "metadata", {"topics": [{"name": topic}], "allow_auto_topic_creation": False}, version=12)
    for count in (3, 2, 1, 0, -1):
        ask(f"count {count}", topic, count)
    ask("only validated", topic, 9, validate_only=True)
    ask("only validated, too few", topic, 1, validate_only=True)
    ask("unknown topic", s.topic_name("missing"), 5)
    ask("illegal name", "a b", 5)
    ask("empty name", "", 5)
    ask("too few assignments", topic, 5, [[1]])
    ask("too many assignments", topic, 4, [[1], [1]])
    ask("empty assignments", topic, 4, [])
    ask("unknown broker", topic, 4, [[9]])
    ask("broker twice", topic, 4, [[1, 1]])
    ask("other replication", topic, 4, [[1, 2]])
    ask("no broker", topic, 4, [[]])
    ask("assigned", topic, 5, [[1], [1]])
    s.until(lambda: s.is_served(topic, 5), "a fifth partition")
    s.ask("five now", "metadata", {"topics": [{"name": topic}], "allow_auto_topic_creation": False}, version=12)
    twice = [{"name": topic, "count": 6, "assignments": None}, {"name": topic, "count": 7, "assignments": None}]
    s.ask("a topic twice", "create_partitions", {"topics": twice, "timeout": 10_000})
    s.ask("nothing", "create_partitions", {"topics": [], "timeout": 10_000})
    s.ask("null list", "create_partitions", {"topics": None, "timeout": 10_000})
