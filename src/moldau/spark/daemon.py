"""Spark's fork server for Python workers, with what our tasks need already imported.

Spark runs `python -m moldau.spark.daemon` instead of `python -m pyspark.daemon` (`spark.python.daemon.module`): a
worker forked from it is ready at once. Two rules of Spark's hold here: nothing may be written to stdout before it
speaks, and no thread may run before the fork. Arrow's second allocator would start one; a setting forbids it.

Pandas is among the modules because Arrow imports it as soon as a task makes an array, which each task that writes does.
"""

import importlib
import os
import sys
from collections.abc import Iterable

from moldau.spark.garbage import set_imports_aside
from moldau.spark.startup.sitecustomize import without_zips

PRELOAD_VARIABLE = "MOLDAU_SPARK_PRELOAD"
QUIET_ALLOCATOR = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ALWAYS = (
    "pyspark_moldau.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyarrow",
    "pandas",
    "moldau.spark.source",
    "moldau.spark.planning.stream_reader",
    "moldau.spark.fetching.prefetch",
    "moldau.spark.writing.writers",
)


def preload(modules: Iterable[str]) -> None:
    """Import each; one that is missing or broken will tell so in the task that needs it."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            sys.stderr.write(f"moldau: {module} is not preloaded: {error}\n")


def main() -> None:
    """Preload, then serve forks as Spark's own daemon does."""
    os.environ.update(
        {name: value for name, value in (QUIET_ALLOCATOR | SINGLE_THREADED).items() if name not in os.environ}
    )
    sys.path[:] = without_zips(sys.path)
    wanted = [module for module in os.environ.get(PRELOAD_VARIABLE, "").split(",") if module]
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        preload((*ALWAYS, *wanted))
    finally:
        sys.stdout = stdout
    set_imports_aside()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
