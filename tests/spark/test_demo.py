"""`moldau demo` in a short form: everything it shows, with fewer events; and what is left when it is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.admin import admin_client
from tests.support.waiting import wait_until

SECONDS = 1500
SHORT = ("--events", "8000", "--seconds", "12", "--master", "local[2]")


def command(output: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "moldau", "demo", *SHORT, "--output", str(output), *more]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "COLUMNS": "120"}


def left_over(folder: Path) -> list[str]:
    """Processes of this run: each inherits its folder for temporary files."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline())[:3000])
    return found


@pytest.mark.timeout(SECONDS + 100)
def test_the_demo_proves_its_results_after_a_kill_and_leaves_nothing(tmp_path: Path) -> None:
    folder, output = tmp_path / "tmp", tmp_path / "pictures"
    folder.mkdir()
    done = subprocess.run(
        command(output), capture_output=True, text=True, timeout=SECONDS, env=environment(folder), cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL to the Spark job in the middle of batch" in done.stdout
    assert "Exactly once: nothing lost, nothing doubled, nothing changed." in done.stdout
    assert (output / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (output / "demo.svg").read_text()
    assert "Exactly once" in (output / "film.svg").read_text()
    assert list(folder.iterdir()) == []
    assert left_over(folder) == []


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    running = subprocess.Popen(
        command(tmp_path / "pictures"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(folder),
        cwd=tmp_path,
        start_new_session=True,
    )
    # The JVM is there: the worst moment to be left behind.
    try:
        wait_until(lambda: any("org.apache.spark" in line for line in left_over(folder)), "the JVM", seconds=300)
    finally:
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=300)
    assert running.returncode == 130, output
    assert left_over(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.chaos
def test_on_somebody_elses_cluster_it_leaves_no_topic_and_no_group(address: str, tmp_path: Path) -> None:
    admin = admin_client(address)
    few = ("--events", "4000", "--seconds", "4", "--no-kill", "--bootstrap", address)
    done = subprocess.run(command(tmp_path, *few), capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exactly once: nothing lost, nothing doubled, nothing changed." in done.stdout
    topics = set(admin.list_topics(timeout=30).topics)
    groups = {group.group_id for group in admin.list_consumer_groups().result(30).valid}
    assert [name for name in topics | groups if "demo" in name] == []


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--bootstrap", "127.0.0.1:9"), capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1, done.stderr
    assert "127.0.0.1:9" in done.stderr
