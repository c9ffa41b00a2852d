"""What fails at first, and what tests leave behind, is written down; a new name fails the next run, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import first_failures
from scripts.first_failures import (
    KNOWN,
    KNOWN_LEFT_OVER,
    ROOT,
    last_words,
    read_known,
    report,
    report_left,
    single,
    temporary_folder,
    unknown,
    unknown_left,
)

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

FAILS_ONCE = """
from pathlib import Path

def test_fails_once():
    been_here = Path(__file__).with_name("been-here")
    if not been_here.exists():
        been_here.touch()
        raise AssertionError("the first time")
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


def test_a_new_name_fails_the_next_run_and_not_the_one_behind_it(tmp_path: Path) -> None:
    """The test that says so fails as well; were its own name written down, no later run could pass."""
    copied = ("scripts/first_failures.py", "tests/support/first_failures.py", "tests/tidy/test_run_before.py")
    for name in copied:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("known_first_failures.tsv", "known_left_over.tsv"):
        (tmp_path / "tests" / name).touch()
    (tmp_path / "tests" / "test_once.py").write_text(FAILS_ONCE)
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    variables["TMPDIR"] = str(tmp_path)  # a run that fails leaves its folder to be looked at
    command = [sys.executable, "scripts/first_failures.py", "-q", "--import-mode=importlib", "tests"]
    told = []
    for _ in range(3):
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)
        told.append((done.returncode, (tmp_path / "build" / "first-failures.txt").read_text().splitlines()))
        assert "slowest 20 durations" in done.stdout, done.stderr
    assert told == [(0, ["tests/test_once.py::test_fails_once"]), (1, []), (0, [])]


def test_a_new_name_is_told_from_a_known_one() -> None:
    known = {"tests/a.py::test_x[1]": "theirs", "tests/b.py::*": "theirs"}
    assert report([], known) == ["Nothing failed at first."]
    assert unknown(["tests/a.py::test_x[1]", "tests/b.py::test_y"], known) == []
    lines = report(["tests/a.py::test_x[1]", "tests/a.py::test_x[2]"], known)
    assert "  known  tests/a.py::test_x[1]" in lines and "  new    tests/a.py::test_x[2]" in lines
    assert unknown(["tests/a.py::test_x1"], known) == ["tests/a.py::test_x1"]


def test_what_is_left_behind_is_counted() -> None:
    known = {"spark-[0-9a-f]+": "Spark's", r"\.lock": "a library's"}
    left = ["spark-12", "spark-ab", "spark-xy"]
    assert unknown_left(left, known) == ["spark-xy"]
    lines = report_left(left, known)
    assert "  known     2  spark-[0-9a-f]+" in lines and "  new          spark-xy" in lines
    assert not any("lock" in line for line in lines)
    assert report_left([], known) == ["The tests left nothing in their temporary folder."]


def test_what_is_new_is_the_last_thing_that_ci_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the run passes none the less: a clean clone has no next one, but the second chance stands."""
    asked: list[list[str]] = []

    def run(arguments: list[str]) -> int:
        asked.append(arguments)
        first_failures.WRITTEN.write_text("tests/a.py::test_x\n")
        Path(os.environ["TMPDIR"], "forgotten").touch()
        return 0

    monkeypatch.setattr(first_failures, "run", run)
    for name in ("WRITTEN", "WRITTEN_BEFORE", "LEFT_OVER", "LEFT_OVER_BEFORE"):
        monkeypatch.setattr(first_failures, name, tmp_path / name)
    monkeypatch.setattr(first_failures, "ROOT", tmp_path)
    for name in ("KNOWN", "KNOWN_LEFT_OVER"):
        monkeypatch.setattr(first_failures, name, tmp_path / name)
        (tmp_path / name).write_text("")
    monkeypatch.delenv("CI", raising=False)
    assert first_failures.main(["-x"]) == 0
    assert "TO BE LOOKED INTO" not in capsys.readouterr().out
    assert first_failures.main(["-x", "--ci"]) == 0
    assert asked == [["-x"], ["-x"]]
    said = capsys.readouterr().out.rstrip().splitlines()
    assert said[-5:] == ["=" * 80, *last_words(["tests/a.py::test_x"], ["forgotten"])[1:]]
    assert said[-4] == "TO BE LOOKED INTO: 1 unknown first failures, 1 unknown left-overs"
    assert first_failures.LEFT_OVER_BEFORE.read_text() == "forgotten\n"
    monkeypatch.setenv("CI", "true")
    assert first_failures.main([]) == 0
    assert "TO BE LOOKED INTO" in capsys.readouterr().out


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


def test_the_list_of_what_may_be_left_is_short() -> None:
    assert len(read_known(KNOWN_LEFT_OVER.read_text())) <= 12


def test_processes_of_the_tests_share_one_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    where = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
    with temporary_folder() as folder:
        assert subprocess.check_output(where, text=True).strip() == str(folder)
    folder.rmdir()
    assert "TMPDIR" not in os.environ
