"""JSON files with partitions: `{"partitions": [{"topic": "foo", "partition": 1, …}]}`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moldau.cli.kafka.options import ToolError


def read_text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"Unable to read file {path}") from None


def partitions_in(path: str, not_json: str, missing: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(read_text(path))
    except json.JSONDecodeError:
        raise ToolError(not_json) from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise ToolError(missing)
    version = document.get("version", 1)
    if version != 1:
        raise ToolError(f"Not supported version field value {version}")
    found: list[dict[str, Any]] = document["partitions"]
    return found


def field(entry: Any, name: str, kind: type) -> Any:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ToolError(f'each entry of "partitions" needs a field "{name}" ({kind.__name__}): {json.dumps(entry)}')
    return value
