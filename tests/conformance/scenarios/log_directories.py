"""DescribeLogDirs and AlterReplicaLogDirs. The brokers under test have two log directories."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session, Topic


def _folders(s: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = s.send("describe_log_dirs", {"topics": None})["results"]
    return found


def _home(s: Session, topic: Topic) -> str:
    """The folder that holds the topic; folders get their names by it, since brokers choose freely."""
    home = next(f["log_dir"] for f in _folders(s) if any(t["name"] == topic.name for t in f["topics"]))
    s.normaliser.folders = {f["log_dir"]: "the other folder" for f in _folders(s)} | {home: "the home folder"}
    return str(home)


@scenario("describe_log_dirs")
def describe_log_dirs(s: Session, version: int) -> None:
    topic = s.create("a")
    s.fill(topic, s.batch("x", "y"), s.batch("z"))
    _home(s, topic)

    def ask(step: str, *wanted: tuple[str, list[int]], topics: Any = ...) -> None:
        asked = [{"topic": name, "partitions": partitions} for name, partitions in wanted]
        s.ask(step, "describe_log_dirs", {"topics": asked if topics is ... else topics}, only_own=True)

    ask("one partition", (topic.name, [0]))
    ask("unknown partition", (topic.name, [0, 9]))
    ask("unknown topic", (s.topic_name("missing"), [0]))
    ask("negative partition", (topic.name, [-1]))
    ask("no partitions", (topic.name, []))
    ask("a topic twice", (topic.name, [0]), (topic.name, [0]))
    ask("illegal name", ("a b", [0]))
    ask("nothing")
    ask("everything", topics=None)
    s.send("delete_records", {
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": -1}]}], "timeout": 5000,
    })  # fmt: skip
    ask("after its records were deleted", (topic.name, [0]))


@scenario("alter_replica_log_dirs")
def alter_replica_log_dirs(s: Session, version: int) -> None:
    topic = s.create("a")
    s.fill(topic, s.batch("x", "y"), s.batch("z"))
    home = _home(s, topic)
    other = next(f["log_dir"] for f in _folders(s) if f["log_dir"] != home)

    def ask(step: str, path: str, name: str, *partitions: int) -> None:
        folder = {"path": path, "topics": [{"name": name, "partitions": list(partitions)}]}
        s.ask(step, "alter_replica_log_dirs", {"dirs": [folder]})

    ask("where it is", home, topic.name, 0)
    ask("unknown folder", "/no/such/folder", topic.name, 0)
    ask("relative folder", "folder", topic.name, 0)
    ask("empty folder", "", topic.name, 0)
    ask("unknown partition", other, topic.name, 9)
    ask("negative partition", other, topic.name, -1)
    ask("illegal name", other, "a b", 0)
    ask("no partitions", other, topic.name)
    ask("moves", other, topic.name, 0)
    s.until(lambda: _has_settled(s, topic, other), "the move")
    s.ask("moved", "describe_log_dirs", {"topics": [{"topic": topic.name, "partitions": [0]}]}, version=4)
    s.ask("still reads", "fetch", s.fetch(topic, 0), version=12)
    s.fill(topic, s.batch("after"))
    ask("moves back", home, topic.name, 0)
    s.until(lambda: _has_settled(s, topic, home), "the move back")
    s.ask("offsets stay", "fetch", s.fetch(topic, 0), version=12)
    s.ask("nothing", "alter_replica_log_dirs", {"dirs": []})
    s.ask("null list", "alter_replica_log_dirs", {"dirs": None})


def _has_settled(s: Session, topic: Topic, folder: str) -> bool:
    places: list[tuple[str, bool]] = []
    for found in _folders(s):
        for held in found["topics"]:
            if held["name"] == topic.name:
                places.extend((found["log_dir"], partition["is_future_key"]) for partition in held["partitions"])
    return places == [(folder, False)]


@scenario("alter_replica_log_dirs")
def alter_replica_log_dirs_before_creation(s: Session, version: int) -> None:
    """A folder chosen for a topic that is still to come is kept in mind."""
    folders = [f["log_dir"] for f in _folders(s)]
    name = s.topic_name("later")
    folder = {"path": folders[-1], "topics": [{"name": name, "partitions": [0]}]}
    s.ask("unknown topic", "alter_replica_log_dirs", {"dirs": [folder]})
    topic = s.create("later")
    s.note("its folder is the chosen one", _home(s, topic) == folders[-1])
