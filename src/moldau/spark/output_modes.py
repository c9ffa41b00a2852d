"""Output mode update, which Spark refuses to every sink that is written in Python, in words that say what to do.

Spark refuses it before it asks the sink anything, and only after the query has started; so the session looks at what a
query is told before it starts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

FORMAT: Final = "moldau"
UPDATE: Final = "update"
NOTED: Final = "_moldau_noted"
REFUSED: Final = (
    'Spark offers outputMode("update") to no sink that is written in Python. Write the rows that have changed with '
    'foreachBatch instead, exactly once all the same: .writeStream.outputMode("update").foreachBatch(exactly_once('
    '{"kafka.bootstrap.servers": …, "topic": …})), with exactly_once from moldau.spark. (outputMode("complete") writes '
    "the whole result with every batch)"
)


class OutputModeUnsupported(ValueError):
    """A query would fail with this output mode."""


def refuse_update_mode(writer_class: type[Any]) -> None:
    """Teaches PySpark's writer of streams; a second call changes nothing."""
    if hasattr(writer_class, NOTED):
        return
    setattr(writer_class, NOTED, None)
    writer_class.format = _noting(writer_class.format, "format")
    writer_class.outputMode = _noting(writer_class.outputMode, "mode")
    writer_class.start = _checking(writer_class.start)


def _noting(method: Callable[[Any, str], Any], what: str) -> Callable[[Any, str], Any]:
    @functools.wraps(method)
    def noted(writer: Any, value: str) -> Any:
        result = method(writer, value)
        setattr(result, NOTED, {**(getattr(writer, NOTED) or {}), what: str(value).lower()})
        return result

    return noted


def _checking(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def checked(
        writer: Any,
        path: str | None = None,
        format: str | None = None,  # Spark's names, here and below
        outputMode: str | None = None,  # noqa: N803
        *rest: Any,
        **more: Any,
    ) -> Any:
        noted = getattr(writer, NOTED) or {}
        chosen, mode = format or noted.get("format", ""), outputMode or noted.get("mode", "")
        if chosen.lower() == FORMAT and mode.lower() == UPDATE:
            raise OutputModeUnsupported(REFUSED)
        return start(writer, path, format, outputMode, *rest, **more)

    return checked
