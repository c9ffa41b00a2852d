"""Numbers of JSON as they stand there: Spark reads fractions as doubles wherever it is not told their digits."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

STRING_OR_NUMBER: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[0-9.eE+-]*')


def quoted(text: str) -> str:
    """JSON with texts in the place of numbers."""
    return STRING_OR_NUMBER.sub(lambda found: found[0] if found[0][0] == '"' else f'"{found[0]}"', text)


def quoted_rows(texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else quoted(text) for text in texts.to_pylist()], pa.string())


arrow_function: Any = arrow_udf
"""Its published type knows fewer forms than it takes."""
quoting: Final = arrow_function(quoted_rows, StringType())
