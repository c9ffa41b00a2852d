"""kafka-dump-log prints of files that Apache Kafka wrote what Apache Kafka's own tool prints of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.kafka.entry import run
from tests.cli.kafka_tools.record_segments import SEGMENTS

DUMPS: list[dict[str, Any]] = json.loads((SEGMENTS / "dumps.json").read_text())


@pytest.mark.parametrize("dump", [pytest.param(each, id=" ".join([each["file"], *each["options"]])) for each in DUMPS])
def test_a_dump_is_apache_kafkas(dump: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    code = run("kafka-dump-log", ["--files", str(SEGMENTS / dump["file"]), *dump["options"]])
    printed = capsys.readouterr()
    assert code == dump["exit"]
    assert printed.out.replace(str(SEGMENTS), "{segments}").splitlines() == dump["stdout"]
    assert printed.err.replace(str(SEGMENTS), "{segments}").splitlines() == dump["stderr"]


def test_all_kinds_of_files_are_among_them() -> None:
    assert {Path(each["file"]).suffix for each in DUMPS} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    shutil.copytree(SEGMENTS / "plain", tmp_path / "plain-0")
    return min((tmp_path / "plain-0").glob("*.log"))


def test_a_torn_tail_is_counted(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment.write_bytes(segment.read_bytes() + b"torn")
    assert run("kafka-dump-log", ["--files", str(segment)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Found 4 invalid bytes at the end of {segment.name}"


def test_a_wrong_crc_is_shown(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    run("kafka-dump-log", ["--files", str(segment)])
    assert "isvalid: false" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--files", "/no/such/00000000000000000000.log"], "/no/such/00000000000000000000.log: No such file"),
        (["--files", "words.log"], "words.log: the name of a segment's file begins with its first offset"),
        (["--files", "a.log", "--cluster-metadata-decoder"], "--cluster-metadata-decoder"),
        (["--print-data-log"], 'Missing required argument "[files]"'),
        (["--files", "0.log", "--bogus"], "bogus is not a recognized option"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("kafka-dump-log", arguments) == 1
    assert capsys.readouterr().err.startswith(complaint)


def test_unknown_files_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kafka-dump-log", ["--files", str(tmp_path / "leader-epoch-checkpoint")]) == 0
    assert "Ignoring unknown file" in capsys.readouterr().err


def test_a_damaged_index_fails_its_check(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(index.read_bytes() + b"xyz")
    assert run("kafka-dump-log", ["--files", str(index), "--index-sanity-check"]) == 1
    assert "neither positive nor a multiple of 8" in capsys.readouterr().err
