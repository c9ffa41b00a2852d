"""What Spark imports again and again stays light: Spark's Python workers are short-lived."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "confluent_kafka", "pyarrow", "numpy", "pandas", "fastavro", "matplotlib", "asyncio", "uvloop", "typer", "rich",
}  # fmt: skip
BROKER = {"storage", "server", "coordinators", "metadata", "replication", "security", "cli"}
LOOKUP = "import pyspark_moldau"
PLANNING = "from moldau.spark.planning import options, reader, reading, stream_reader"
COMMITTING = "import moldau.spark.writing.writers"
LIST = "import sys; print(*sorted(sys.modules))"


def modules_after(statement: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{statement}; {LIST}"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_looking_the_source_up_imports_next_to_nothing() -> None:
    found = modules_after(LOOKUP)
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    ours = {name for name in found if name.startswith("moldau.")}
    assert ours <= {
        "moldau.lazy",
        "moldau.version",
        "moldau.spark",
        "moldau.spark.writing",
        "moldau.spark.writing.foreach",
        "moldau.spark.session",
        "moldau.spark.source",
        "moldau.spark.java",
    }


@pytest.mark.parametrize("statement", [PLANNING, COMMITTING])
def test_planning_imports_neither_arrow_nor_librdkafka_nor_the_broker(statement: str) -> None:
    found = modules_after(f"{LOOKUP}; {statement}")
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    assert {name.split(".")[1] for name in found if name.startswith("moldau.")} & BROKER == set()
