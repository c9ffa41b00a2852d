"""`moldau.spark.session()` on a real Spark: settings arrive, workers start preloaded and without threads."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from moldau.spark.java import find_java_home

SUBMIT_SECONDS = 120


def test_the_settings_that_streams_need_are_in_force(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.streaming.stateStore.providerClass").endswith("RocksDBStateStoreProvider")
    assert spark.conf.get("spark.sql.adaptive.streaming.stateless.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


def test_a_worker_is_this_python_and_has_arrow_loaded(spark: SparkSession) -> None:
    import sys

    def look(_: Iterator[int]) -> Iterator[tuple[str, bool, bool]]:
        import sys

        yield sys.prefix, "pyarrow" in sys.modules, "pandas" in sys.modules

    seen = spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
    assert seen == [(sys.prefix, True, True)]


def test_a_worker_imports_compiled_code_and_does_not_search_it_for_garbage(spark: SparkSession) -> None:
    def look(_: Iterator[int]) -> Iterator[tuple[str, int]]:
        import gc

        import pyspark

        yield pyspark.__file__, gc.get_freeze_count()

    ((file, set_aside),) = spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
    assert ".zip" not in file
    assert set_aside > 10_000


def test_a_worker_has_no_thread_from_before_its_fork(spark: SparkSession) -> None:
    def threads_of_the_daemon(_: Iterator[int]) -> Iterator[list[str]]:
        import os
        from pathlib import Path

        tasks = Path(f"/proc/{os.getppid()}/task").iterdir()
        yield [(task / "comm").read_text().strip() for task in tasks]

    ((names),) = spark.sparkContext.parallelize([1], 1).mapPartitions(threads_of_the_daemon).collect()
    assert len(names) == 1, names


SHOWN = (
    "spark.sql.session.timeZone",
    "spark.python.daemon.module",
    "spark.sql.shuffle.partitions",
    "spark.driver.extraJavaOptions",
)
PROGRAM = f"""
from moldau.spark import session
spark = session("submitted", ui=False)
print("told", *(spark.conf.get(key) for key in {SHOWN}))
spark.stop()
"""


def test_what_spark_submit_says_wins(tmp_path: Path) -> None:
    """The time zone by the command, the daemon by the file of defaults."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "spark-defaults.conf").write_text("spark.python.daemon.module pyspark.daemon\n")
    command = [
        str(Path(pyspark.__file__).with_name("bin") / "spark-submit"),
        *("--master", "local[1]", "--conf", "spark.sql.session.timeZone=Europe/Prague"),
        *("--driver-java-options", "-Dmine=1", str(tmp_path / "program.py")),
    ]
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "JAVA_HOME": str(find_java_home(os.environ))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SUBMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    (told,) = [line.split() for line in done.stdout.splitlines() if line.startswith("told ")]
    assert told[1:4] == ["Europe/Prague", "pyspark.daemon", "1"]
    assert "-Dmine=1" in told
