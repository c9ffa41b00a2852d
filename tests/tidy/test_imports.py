"""Importing the product stays cheap: what only a command, a test or the generator needs is not pulled in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.cli.main import NOUNS

HEAVY = {
    "kio", "hypothesis", "pytest", "typer", "click", "rich", "confluent_kafka", "aiokafka", "kafka", "psutil",
    "pydantic",
}  # fmt: skip
LIST_MODULES = "import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"


def modules_after_importing(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES.format(module=module)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["moldau", "moldau.types", "moldau.wire", "moldau.wire.codec"])
def test_the_base_is_light(module: str) -> None:
    assert modules_after_importing(module) & (HEAVY | {"asyncio", "uvloop"}) == set()


@pytest.mark.parametrize("module", ["moldau.cli.main", *(noun.module for noun in NOUNS)])
def test_a_command_imports_what_it_needs_when_it_runs(module: str) -> None:
    """So that help, completion and refusals are quick, and a short command under 0.3 s of processor time."""
    assert modules_after_importing(module) & (HEAVY - {"typer"} | {"asyncio", "uvloop"}) == set()


@pytest.mark.parametrize("module", ["moldau.cli.output", "moldau.cli.connection"])
def test_what_all_commands_share_is_lighter_still(module: str) -> None:
    assert modules_after_importing(module) & (HEAVY | {"asyncio", "uvloop", "tomllib", "ssl"}) == set()
