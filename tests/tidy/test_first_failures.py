"""What fails at first is written down, and a new name fails the next run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.first_failures import KNOWN, ROOT, WRITTEN_BEFORE, read_known, report, single, unknown

FLAKY = """
import pathlib, pytest

def test_is_well(): pass

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.xdist_group("together")
def test_fails(number): assert number == 1

@pytest.fixture
def broken(): raise OSError

def test_cannot_begin(broken): pass
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist=loadgroup")], ids=["alone", "with workers"])
def test_the_plugin_writes_what_fails(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_flaky.py").write_text(FLAKY)
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    plugin = ("-p", "tests.support.first_failures", "--first-failures", "failed.txt")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, *plugin, "test_flaky.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**variables, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed = sorted((tmp_path / "failed.txt").read_text().splitlines())
    assert failed == ["test_flaky.py::test_cannot_begin", "test_flaky.py::test_fails[2]"]


def test_a_new_name_is_told_from_a_known_one() -> None:
    known = {"tests/a.py::test_x[1]": "theirs", "tests/b.py::*": "theirs"}
    assert report([], known) == ["Nothing failed at first."]
    assert unknown(["tests/a.py::test_x[1]", "tests/b.py::test_y"], known) == []
    lines = report(["tests/a.py::test_x[1]", "tests/a.py::test_x[2]"], known)
    assert "  known  tests/a.py::test_x[1]" in lines and "  new    tests/a.py::test_x[2]" in lines
    assert unknown(["tests/a.py::test_x1"], known) == ["tests/a.py::test_x1"]


def test_what_failed_at_first_in_the_run_before_is_known() -> None:
    """Mend it, or write down in tests/known_first_failures.tsv why it is somebody else's; then remove the file."""
    failed = WRITTEN_BEFORE.read_text().splitlines() if WRITTEN_BEFORE.exists() else []
    assert unknown(failed, read_known(KNOWN.read_text())) == [], f"see {WRITTEN_BEFORE}"


def test_the_list_gives_reasons() -> None:
    assert read_known("# for people\n\na\tlibrdkafka's race\n") == {"a": "librdkafka's race"}
    with pytest.raises(ValueError, match="line 1"):
        read_known("a\n")


def test_the_second_run_has_the_machine_for_itself() -> None:
    assert single(["-n", "2", "-m", "not live", "--numprocesses=3", "-x"]) == ["-m", "not live", "-x"]


def test_the_list_of_known_ones_is_short_and_names_what_exists() -> None:
    known = read_known(KNOWN.read_text())
    assert len(known) <= 15
    for name in known:
        assert (ROOT / name.partition("::")[0]).is_file(), name
