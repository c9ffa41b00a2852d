"""The JSON in which Kafka writes down which replicas partitions have, or shall have; and its checks.

`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/data"]}]}`; the file of
topics to move is `{"version":1,"topics":[{"topic":"t"}]}`. Refusals are Kafka's own words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moldau.cli.calls.reassignments import Directories, Layout, Replica
from moldau.types.ids import TopicPartition

VERSION: Final = 1
ANY: Final = "any"
"""Stands for whichever log directory the broker chooses."""


class PlanError(Exception):
    """A file that says no plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    entries: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    """As they stand in the file, also those that stand there twice."""
    directories: Mapping[Replica, str]

    @property
    def layout(self) -> Layout:
        return dict(self.entries)

    @property
    def topics(self) -> list[str]:
        return sorted({place.topic for place, _ in self.entries})


def parse_plan(text: str) -> Plan:
    document = _document(text)
    entries = []
    directories: dict[Replica, str] = {}
    for entry in _list(document, "partitions"):
        place = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        replicas = tuple(_numbers(_field(entry, "replicas", list)))
        chosen = entry.get("log_dirs", [ANY] * len(replicas))
        if not isinstance(chosen, list) or len(chosen) != len(replicas):
            raise PlanError(
                f"Size of replicas list {java_list(replicas)} is different from size of log dirs list "
                f"{java_list(chosen)} for partition {place}"
            )
        entries.append((place, replicas))
        for broker, directory in zip(replicas, chosen, strict=True):
            if directory != ANY:
                directories[Replica(broker, *place)] = str(directory)
    return Plan(tuple(entries), directories)


def check_plan(plan: Plan) -> None:
    """What must hold before a plan is carried out."""
    if not plan.entries:
        raise PlanError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.entries):
        raise PlanError("Partition replica list cannot be empty")
    twice = duplicates(place for place, _ in plan.entries)
    if twice:
        raise PlanError(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    repeated = {place: duplicates(replicas) for place, replicas in plan.entries}
    told = [
        f"{place} contains multiple entries for {','.join(map(str, brokers))}"
        for place, brokers in repeated.items()
        if brokers
    ]
    if told:
        raise PlanError(f"Partition replica lists may not contain duplicate entries: {'. '.join(told)}")


def parse_topics(text: str) -> list[str]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        raise PlanError("The input string is not a valid JSON") from None
    _check_version(document)
    found: list[str] = [_field(entry, "topic", str) for entry in _list(document, "topics")]
    twice = duplicates(found)
    if twice:
        raise PlanError(f"List of topics to reassign contains duplicate entries: {java_list(twice)}")
    return found


def parse_brokers(text: str) -> list[int]:
    found = []
    for each in text.split(","):
        try:
            found.append(int(each))
        except ValueError:
            raise PlanError(f'For input string: "{each}"') from None
    twice = duplicates(found)
    if twice:
        raise PlanError(f"Broker list contains duplicate entries: {java_list(twice)}")
    return found


def plan_text(layout: Layout, directories: Mapping[Replica, Directories] | None = None) -> str:
    """A plan that leads to this layout, in the log directories that are given."""
    known = directories or {}
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(replicas),
            "log_dirs": [known.get(Replica(broker, *place), Directories()).current or ANY for broker in replicas],
        }
        for place, replicas in sorted(layout.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def duplicates(items: Iterable[Any]) -> list[Any]:
    return [item for item, count in Counter(items).items() if count > 1]


def java_list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"The input string is not a valid JSON: {error}") from None
    _check_version(document)
    found: dict[str, Any] = document
    return found


def _check_version(document: Any) -> None:
    if not isinstance(document, dict):
        raise PlanError(f"Expected JSON object, received {json.dumps(document)}")
    version = document.get("version", VERSION)
    if version != VERSION:
        raise PlanError(f"Not supported version field value {version}")


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise PlanError(f"Expected JSON array, received {json.dumps(found)}")
    return found


def _field(entry: Any, name: str, kind: type) -> Any:
    if not isinstance(entry, dict):
        raise PlanError(f"Expected JSON object, received {json.dumps(entry)}")
    if name not in entry:
        raise PlanError(f"No such field exists: `{name}`")
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise PlanError(f"Expected `{name}` to be a {kind.__name__}, received {json.dumps(value)}")
    return value


def _numbers(values: Sequence[Any]) -> list[int]:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            raise PlanError(f"Expected `Integer` value, received {json.dumps(value)}")
    return list(values)
