"""The Python examples of README and tutorial run as they stand, against a broker of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
WRITTEN_ADDRESS = "localhost:9092"
WRITTEN_CHECKPOINT = "/tmp/moldau-checkpoint"
SECONDS = 500
ATTEMPTS = 4
JAVAS_GREETING = "WARNING: Using incubator modules: jdk.incubator.vector"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("document", "expected"), [("README.md", "HELLO"), ("docs/tutorial.md", "10 shouted")])
def test_the_examples_of_a_document_run(document: str, expected: str, tmp_path: Path) -> None:
    blocks = PYTHON_BLOCK.findall((ROOT / document).read_text())
    assert blocks and all(WRITTEN_ADDRESS in block for block in blocks)
    with Broker(tmp_path / "broker") as broker:
        texts = [block.replace(WRITTEN_ADDRESS, broker.address) for block in blocks]
        shown = [run(text.replace(WRITTEN_CHECKPOINT, str(tmp_path / "checkpoint"))) for text in texts]
    assert expected in shown[-1]


def run(code: str) -> str:
    for attempts_left in reversed(range(ATTEMPTS)):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        # Spark gives its own Python process ten seconds to start, whatever else the machine has to do. A pipeline that
        # is run again goes on from its checkpoint.
        if done.returncode == 0 or "Python worker failed to connect back" not in done.stderr or attempts_left == 0:
            break
    assert done.returncode == 0, done.stderr
    noise = [line for line in done.stderr.splitlines() if line != JAVAS_GREETING]
    assert noise == [], done.stderr
    return done.stdout
