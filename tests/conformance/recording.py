"""Recordings: the real broker's answers as data, and how another broker's answers are compared with them.

File: {"broker": …, "steps": {step: [{"versions": [4, 5], "answer": {…}}, …]}}; versions with the same answer share an
entry.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.conformance.normalise import identity

Plain = Any
Answers = Mapping[str, Plain]
RECORDED: Final = Path(__file__).parent / "recorded"
ABSENT: Final = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    step: str
    path: str
    expected: Plain
    actual: Plain

    def __str__(self) -> str:
        return (
            f"{self.step} · {self.path or 'answer'}: Apache Kafka {_short(self.expected)}, here {_short(self.actual)}"
        )


def store(folder: Path, scenario: str, broker: str, by_version: Mapping[int, Answers]) -> None:
    steps: dict[str, list[tuple[Plain, list[int]]]] = {}
    for version, answers in by_version.items():
        for step, answer in answers.items():
            groups = steps.setdefault(step, [])
            for known, versions in groups:
                if known == answer:
                    versions.append(version)
                    break
            else:
                groups.append((answer, [version]))
    lines = []
    for step, groups in steps.items():
        entries = [
            f'   {{"versions": {json.dumps(versions)}, "answer": {_compact(answer)}}}' for answer, versions in groups
        ]
        lines.append(f"  {json.dumps(step)}: [\n" + ",\n".join(entries) + "]")
    text = f'{{"broker": {json.dumps(broker)},\n "steps": {{\n' + ",\n".join(lines) + "}}\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{scenario}.json").write_text(text)


def load(folder: Path, scenario: str, version: int) -> Answers:
    steps = _read(folder / f"{scenario}.json")
    return {step: group["answer"] for step, groups in steps.items() for group in groups if version in group["versions"]}


@functools.cache
def _read(path: Path) -> Mapping[str, Plain]:
    steps: Mapping[str, Plain] = json.loads(path.read_text())["steps"] if path.exists() else {}
    return steps


def compare(expected: Answers, actual: Answers) -> list[Difference]:
    found: list[Difference] = []
    for step in [*expected, *(step for step in actual if step not in expected)]:
        left = _of_nobody(expected.get(step, ABSENT))
        right = _of_nobody(json.loads(json.dumps(actual.get(step, ABSENT))))
        found.extend(Difference(step, path, a, b) for path, a, b in _differences("", left, right))
    return found


def _of_nobody(answer: Plain) -> Plain:
    """A refused part names producer 0, which may also be the first producer's id and have got a name for that."""
    if isinstance(answer, list):
        return [_of_nobody(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    inner = {key: _of_nobody(value) for key, value in answer.items()}
    producer = str(inner.get("producer_id", ""))
    if inner.get("error_code", "NONE") != "NONE" and producer.startswith("producer "):
        inner["producer_id"] = 0
    return inner


def _differences(path: str, expected: Plain, actual: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            inner = f"{path}.{key}" if path else key
            yield from _differences(inner, expected.get(key, ABSENT), actual.get(key, ABSENT))
    elif isinstance(expected, list) and isinstance(actual, list):
        left, right = _keyed(expected), _keyed(actual)
        if left is None or right is None:
            left, right = dict(enumerate(expected)), dict(enumerate(actual))
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _differences(f"{path}[{key}]", left.get(key, ABSENT), right.get(key, ABSENT))
    elif expected != actual or type(expected) is not type(actual):
        yield path, expected, actual


def _keyed(items: list[Plain]) -> dict[Any, Plain] | None:
    """Items by what identifies them, if that tells them apart."""
    keyed = {"/".join(map(str, identity(item))): item for item in items}
    return keyed if len(keyed) == len(items) and "" not in keyed else None


def _compact(answer: Plain) -> str:
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False)


def _short(value: Plain) -> str:
    text = value if value == ABSENT else _compact(value)
    return text if len(text) <= 300 else text[:300] + "…"
