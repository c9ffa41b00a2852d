"""Importing the product stays cheap: what only a command, a test or the generator needs is not pulled in."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_the_command_line_starts_without_what_a_command_may_never_use() -> None:
    assert modules_after_importing("moldau.cli.main") & (HEAVY - {"typer", "click"} | {"asyncio", "uvloop"}) == set()
