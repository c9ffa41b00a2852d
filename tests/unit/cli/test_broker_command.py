"""What `moldau broker start` says before a broker exists: refusals, one line each, with exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from moldau.version import VERSION
from tests.support.command import run
from tests.support.kafka_folders import contents, unpack


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


def test_protection_that_is_not_given_is_refused() -> None:
    result = run("broker", "start", "--set", "authorizer.class.name=com.example.Authorizer")
    assert result.code == 2
    assert "com.example.Authorizer for configuration authorizer.class.name: Known are: " in result.err


def test_a_folder_of_apache_kafka_is_refused_and_not_touched(tmp_path: Path) -> None:
    kafka = unpack("kraft", tmp_path)
    before = contents(tmp_path)
    command = [sys.executable, "-m", "moldau", "broker", "start", "--set", "listeners=PLAINTEXT://localhost:0"]
    command += ["--set", f"log.dirs={kafka.first},{kafka.second}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        f"moldau: cannot start: {kafka.first}: this log directory belongs to Apache Kafka, cluster "
    )
    assert len(ended.stderr.splitlines()) == 1
    assert contents(tmp_path) == before
