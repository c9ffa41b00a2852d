"""A Spark session that just works: `moldau.spark.session()`.

It finds Java, points Spark's workers at this Python, and sets what streams on topics need. Every setting below is a
default: `spark.*` arguments win, and so does what `spark-submit` or `spark-defaults.conf` passed, because Spark is only
told what nobody has said. Nothing assumes local mode: any master works.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.spark.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
DAEMON_MODULE = "moldau.spark.daemon"
WORKER_MODULE = "pyspark_moldau.worker"
STARTUP_FOLDER = Path(__file__).with_name("startup")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")

# Each with its reason, for the reference page and for whoever wants another value.
DEFAULTS: Mapping[str, tuple[str, str]] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "state outgrows the heap, and transformWithState needs it",
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": (
        "true",
        "a batch commits what changed, not a snapshot of all state",
    ),
    "spark.sql.adaptive.streaming.stateless.enabled": (
        "false",
        "a replayed batch must have the same tasks with the same rows, which the exactly-once sink relies on",
    ),
    "spark.sql.execution.arrow.pyspark.enabled": ("true", "toPandas and createDataFrame without a copy per row"),
    "spark.sql.session.timeZone": ("UTC", "one zone for the whole pipeline: windows do not depend on the machine"),
    "spark.ui.showConsoleProgress": ("false", "no bars between the program's own lines"),
}
LOCAL_DEFAULTS: Mapping[str, tuple[str, str]] = {
    "spark.driver.bindAddress": ("127.0.0.1", "local mode needs no other interface"),
    "spark.driver.host": ("127.0.0.1", "and no name of this machine that resolves"),
}


class SparkMissing(ImportError):
    """PySpark is not installed."""


def session(
    app_name: str = "moldau",
    master: str | None = None,
    *,
    ui: bool = True,
    log_level: str = "ERROR",
    preload: bool | Iterable[str] = True,
    lag: bool | Mapping[str, str] = True,
    settings: Mapping[str, object] | None = None,
    **spark_settings: object,
) -> "SparkSession":
    """A session for streams on topics; an active one is returned with these settings applied to it. When the program
    ends, or is interrupted, its queries are stopped before Spark is, whether or not `stop()` is called.

    `app_name`: what Spark calls the program. `master`: as for Spark, `local[*]` by default unless `spark-submit` chose
    one. `ui`: False switches the web page off. `log_level`: of what Spark itself writes to stderr; with ERROR, what it
    repeats of an error that is raised is left out.

    `preload`: fork workers from a process that has imported Arrow, pandas and the data source, and let Spark's Python
    processes import PySpark from where it is installed, not from its zip; names of further modules may be given.
    `lag`: publish what queries without `kafka.group.id` consume under the query's name; a mapping carries the
    login where the cluster wants one (Java's property names). `settings`, or keywords such as
    `**{"spark.executor.memory": "2g"}`, go to Spark as they are.
    """
    session_class = _require_spark()
    from moldau.spark.submitted import is_submitted, submitted_settings

    given = _checked({**(settings or {}), **spark_settings})
    submitted = is_submitted(os.environ)
    if not submitted:
        os.environ["JAVA_HOME"] = str(find_java_home(os.environ))
    said = submitted_settings(os.environ)
    wanted_master = master or given.get("spark.master") or said.get("spark.master") or "local[*]"
    if wanted_master.startswith("sc://"):
        raise ValueError(
            "a session of Spark Connect is made with SparkSession.builder.remote(), its server has the settings"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = session_class.builder.appName(app_name).master(wanted_master)
    made = session_settings(
        wanted_master, given, said, ui=ui, log_level=log_level, preload=preload, temporary=tempfile.gettempdir()
    )
    if submitted:  # Java runs already
        made.pop(JAVA_OPTIONS)
    for key, value in made.items():
        builder = builder.config(key, value)
    with first_on_python_path(STARTUP_FOLDER, os.environ) if preload else nullcontext():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log_level)
    _watch(spark, lag)
    return spark


def _watch(spark: "SparkSession", lag: bool | Mapping[str, str]) -> None:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from moldau.spark.ending import end_well
    from moldau.spark.listener import watch_queries
    from moldau.spark.output_modes import refuse_update_mode

    watch_queries(spark, publish_lag=lag is not False, properties=None if isinstance(lag, bool) else lag)
    refuse_update_mode(DataStreamWriter)
    end_well()


def session_settings(
    master: str,
    given: Mapping[str, str],
    said: Mapping[str, str] | None = None,
    *,
    ui: bool = True,
    log_level: str = "ERROR",
    preload: bool | Iterable[str] = True,
    temporary: str | None = None,
) -> dict[str, str]:
    """Everything that a session is told: our defaults for this master, but for what was `said` to Spark before, and
    what was given. `temporary`: Java shall use the same folder for temporary files as Python, where TMPDIR counts."""
    said = said or {}
    settings = {key: value for key, (value, _) in DEFAULTS.items()}
    if LOCAL_MASTER.fullmatch(master):
        settings |= {key: value for key, (value, _) in LOCAL_DEFAULTS.items()}
    if cores := cores_of(master, {**said, **given}):
        settings["spark.sql.shuffle.partitions"] = str(cores)
    if not ui:
        settings["spark.ui.enabled"] = "false"
    if preload:
        settings["spark.python.daemon.module"] = DAEMON_MODULE
        settings["spark.python.worker.module"] = WORKER_MODULE
        modules = () if preload is True else tuple(preload)
        if modules:
            settings["spark.executorEnv.MOLDAU_SPARK_PRELOAD"] = ",".join(modules)
    settings = {key: value for key, value in settings.items() if key not in said} | dict(given)
    quiet = f'"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}" -Dmoldau.log.level={log_level}'
    if log_level != "ERROR":
        quiet += f" -Dmoldau.log.repeats={log_level}"
    if temporary is not None:
        quiet += f' "-Djava.io.tmpdir={temporary}"'
    java_options = f"{quiet} {given.get(JAVA_OPTIONS, said.get(JAVA_OPTIONS, ''))}".strip()
    return settings | {JAVA_OPTIONS: java_options}


@contextmanager
def first_on_python_path(folder: Path, environment: MutableMapping[str, str]) -> Iterator[None]:
    """While Spark's Java process starts: its Python processes get the path that it was started with."""
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{before}" if before else str(folder)
    try:
        yield
    finally:
        if before is None:
            del environment["PYTHONPATH"]
        else:
            environment["PYTHONPATH"] = before


def cores_of(master: str, settings: Mapping[str, str]) -> int | None:
    """How many tasks can run at once, as far as master and settings tell; Spark's default of 200 shuffle partitions
    is for large clusters, and a stateful query keeps its first number for life."""
    if local := LOCAL_MASTER.fullmatch(master):
        number = local.group(1)
        return _own_cores() if number == "*" else int(number or 1)
    if "spark.cores.max" in settings:
        return int(settings["spark.cores.max"])
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"]) * int(settings.get("spark.executor.cores", "1"))
    return None


def _own_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked(settings: Mapping[str, object]) -> dict[str, str]:
    for key in settings:
        if not key.startswith("spark."):
            raise ValueError(f"{key!r} is no setting of Spark: their names begin with 'spark.'")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}


def _require_spark() -> "type[SparkSession]":
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing(f"PySpark is not installed ({error}): pip install 'moldau[spark]'") from None
    return SparkSession
