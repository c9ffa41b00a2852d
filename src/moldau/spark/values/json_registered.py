"""JSON behind the id of a JSON Schema in a registry: read, and written.

What is read is not checked against its schema again: whoever wrote it did, and Confluent's deserializers do not either
by default. What is written with a schema that was given is checked row by row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import DataType

from moldau.schemas.framing import head_of, read_frame
from moldau.schemas.model import JSON
from moldau.spark.values.json_values import Errors, JsonDecoder
from moldau.spark.values.registry import Known, Registry, SchemaRefused


class RegisteredJsonDecoder:
    def __init__(self, kind: DataType, registry: Registry, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._json = JsonDecoder(kind)
        self._known = Known[int | UUID, object](lambda schema: registry.by_id(schema, JSON), monotonic)

    def decode(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        # Arrow's own slicing of binary values miscounts where an array is a part of another (seen in 25).
        values = column.to_pylist()
        refused = self._refused(values)
        payload = [
            None if value is None or row in refused else value[len(head_of(value)) :]
            for row, value in enumerate(values)
        ]
        decoded, errors = self._json.decode(pa.array(payload, pa.binary()))
        return decoded, refused | errors

    def _refused(self, values: list[bytes | None]) -> Errors:
        """The rows with no schema id before them, or with one of no JSON Schema; few ids stand before many rows."""
        heads = [None if value is None else head_of(value) for value in values]
        reasons = {head: why for head in set(heads) if head is not None and (why := self._reason(head)) is not None}
        return {row: reasons[head] for row, head in enumerate(heads) if head in reasons} if reasons else {}

    def _reason(self, head: bytes) -> str | None:
        try:
            self._known.get(read_frame(head).schema)
        except (SchemaRefused, ValueError) as error:
            return str(error)
        return None


def checking(schema: str) -> Callable[[str], None]:
    """Raises ValueError for a text of JSON that breaks the schema."""
    from jsonschema import SchemaError as Wrong
    from jsonschema.validators import validator_for

    content = json.loads(schema)
    kind = validator_for(content)
    try:
        kind.check_schema(content)
    except Wrong as error:
        raise ValueError(f"no JSON Schema: {error.message}") from None
    validator = kind(content)

    def check(text: str) -> None:
        problem: Any = next(validator.iter_errors(json.loads(text)), None)
        if problem is not None:
            where = "/".join(map(str, problem.absolute_path))
            raise ValueError(f"it breaks its schema{f' at {where}' if where else ''}: {problem.message}")

    return check
