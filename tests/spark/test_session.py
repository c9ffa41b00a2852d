"""`moldau.spark.session()` on a real Spark: settings arrive, workers start preloaded and without threads."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession


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
