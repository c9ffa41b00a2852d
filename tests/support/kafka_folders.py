"""Folders that a real Apache Kafka has left, unpacked for a test (recorded by `tests/peers/record_folder.py`)."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "peers" / "recorded" / "folders"


@dataclass(frozen=True, slots=True)
class KafkaFolders:
    """`first` and `second` were `log.dirs` of one broker; `expected` is what its clients saw before it was stopped."""

    first: Path
    second: Path
    expected: dict[str, Any]

    @property
    def both(self) -> tuple[Path, Path]:
        return self.first, self.second


def unpack(kind: str, target: Path, without: Sequence[str] = ()) -> KafkaFolders:
    """`kraft`: Kafka 4.3, its own controller. `kraft3`: Kafka 3.9, likewise. `zookeeper`: Kafka 3.9. `without` names
    topics that are left out."""
    left_out = tuple(f"{folder}/{topic}-" for topic in without for folder in ("first", "second"))
    with tarfile.open(RECORDED / f"{kind}.tar.gz") as packed:
        wanted = [member for member in packed.getmembers() if not member.name.startswith(left_out)]
        packed.extractall(target, wanted, filter="data")
    return KafkaFolders(target / "first", target / "second", json.loads((RECORDED / f"{kind}.json").read_text()))


def contents(*folders: Path) -> dict[str, str]:
    """Every file and folder below, with the digest of what it holds: equal before and after means untouched."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            found[f"{folder.name}/{path.relative_to(folder)}"] = digest
    return found
