"""The connectors that the how-to prints do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from moldau.connect import SinkConnector, SinkRecord, SourceConnector
from moldau.connect.connector_settings import SINK, SOURCE
from moldau.connect.plugins import find

PAGES = Path(__file__).parents[3] / "docs" / "howto"
HOWTO = PAGES / "connect.md"


def printed() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", HOWTO.read_text(), re.DOTALL):
        exec(block, found)
    return found


def test_the_source_counts() -> None:
    kind: type[SourceConnector] = printed()["Counter"]
    source = kind(kind.CONFIG.checked({"up.to": "250"}))
    (stream,) = source.streams()
    position, numbers = None, []
    while (end := source.latest(stream, position)) != position:
        assert end is not None
        numbers += [record.value for record in source.read(stream, position, end)]  # type: ignore[union-attr]
        position = end
    assert numbers == list(range(1, 251))


def test_the_sink_writes_a_file_for_each_record(tmp_path: Path) -> None:
    kind: type[SinkConnector] = printed()["Folder"]
    sink = kind(kind.CONFIG.checked({"folder": str(tmp_path)}))
    for _ in range(2):
        sink.write(iter([SinkRecord("t", 0, 5, None, None, "five"), SinkRecord("t", 0, 6, None, None, "six")]))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"t-0-5": "five", "t-0-6": "six"}


def test_the_settings_that_the_page_of_archives_prints_are_known_and_go_together() -> None:
    blocks = re.findall(r"```properties\n(.*?)```", (PAGES / "archive.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        given = dict(line.split("=", 1) for line in block.splitlines())
        kind = find(given["connector.class"])
        common = SOURCE if issubclass(kind, SourceConnector) else SINK
        free = ("key.converter", "value.converter", "store.options.", "iceberg.catalog.")
        unknown = [each for each in given if each not in kind.CONFIG and each not in common]
        assert [each for each in unknown if not each.startswith(free)] == []
        kind({**given, **kind.CONFIG.checked(given)}).close()
