"""What `moldau broker start` says before a broker exists: refusals, one line each, with exit code 2."""

from __future__ import annotations

from pathlib import Path

from moldau.version import VERSION
from tests.support.command import run


def test_version() -> None:
    assert run("--version").out == f"moldau {VERSION}\n"


def test_every_bad_value_is_named_with_its_key_and_what_is_allowed() -> None:
    result = run("broker", "start", "--set", "num.partitions=none", "--set", "log.cleaner.threads=-1")
    assert result.code == 2
    first, second = sorted(result.err.splitlines())
    assert "log.cleaner.threads" in first and "-1" in first and "at least 0" in first
    assert "num.partitions" in second and "none" in second and "INT" in second


def test_a_setting_without_a_value_is_refused() -> None:
    result = run("broker", "start", "--set", "num.partitions")
    assert (result.code, result.err) == (2, "--set num.partitions: expected KEY=VALUE\n")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.properties"
    result = run("broker", "start", "--config", str(missing))
    assert (result.code, result.err) == (2, f"--config {missing}: No such file or directory\n")


def test_a_file_that_is_no_properties_file_is_refused_with_the_line(tmp_path: Path) -> None:
    broken = tmp_path / "server.properties"
    broken.write_text("# ours\nlog.dirs=\\u12\n")
    result = run("broker", "start", "--config", str(broken))
    assert result.code == 2
    assert "line 2" in result.err


def test_single_settings_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=many\nlog.cleaner.threads=few\n")
    result = run("broker", "start", "--config", str(file), "--set", "num.partitions=3")
    assert result.code == 2
    assert "log.cleaner.threads" in result.err
    assert "num.partitions" not in result.err
