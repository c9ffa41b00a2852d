"""A plugin that writes down which tests failed: `-p tests.support.first_failures --first-failures FILE`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

OPTION = "--first-failures"
# It fails because of the run before: its own name would fail the run behind this one, and so for ever.
JUDGE = "tests/tidy/test_run_before.py::"
WORKERS_GROUP = re.compile(r"@[\w-]+$")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write the names of tests that fail into this file")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption(OPTION)
    # Workers tell the one that has started them, which alone writes.
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FirstFailures(Path(file)))


class FirstFailures:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._written: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid)

    def _write(self, name: str) -> None:
        """At once: a run that is killed has still told."""
        plain = WORKERS_GROUP.sub("", name)
        if plain not in self._written and not plain.startswith(JUDGE):
            self._written.add(plain)
            with self._file.open("a") as out:
                out.write(f"{plain}\n")
