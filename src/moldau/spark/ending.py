"""How a program with a session ends: at its last line, by an error, by Ctrl-C; with or without `spark.stop()`.

Left to itself, Python takes the listener away while Spark still reports to it: the last batch's offsets are not
published, and Spark tells of the loss with stack traces. So whatever still runs is stopped first. And PySpark answers
Ctrl-C by asking Spark something on the connection that is being waited on, which only makes three stack traces of it.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_TIMEOUT: Final = "spark.sql.streaming.stopTimeout"
STOP_SECONDS: Final = 20
"""A query that waits for a broker which is away would hold the end up for as long as its patience lasts."""
INTERRUPTED: Final = "interrupted: the queries are stopped; started again, they go on from their checkpoints"
SPARKS_MODULE: Final = "pyspark.core.context"
TOLD_BY_THE_GATEWAY: Final = "KeyboardInterrupt while sending command."

ATTEMPTS: Final = 2

log = logging.getLogger(__name__)

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def end_well() -> None:
    """To be called after a session was made; each session's context sets its own handler for Ctrl-C."""
    _install_once(os.getpid())
    if threading.current_thread() is threading.main_thread() and not is_interactive():
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", None) == SPARKS_MODULE:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def is_interactive() -> bool:
    """There Ctrl-C ends what is computed, and the program goes on."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules


@cache
def _install_once(process: int) -> None:
    def stop_what_runs() -> None:
        if os.getpid() == process:
            stop_active_session()

    atexit.register(stop_what_runs)
    logging.getLogger().addFilter(lambda record: record.msg != TOLD_BY_THE_GATEWAY)
    if not is_interactive():
        sys.excepthook = one_line_for_interrupts(sys.excepthook)


def one_line_for_interrupts(otherwise: Hook) -> Hook:
    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.stderr.write(f"{INTERRUPTED}\n")
        else:
            otherwise(kind, error, trace)

    return hook


def stop_active_session() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, spark = SparkContext._active_spark_context, SparkSession._instantiatedSession
    if context is None or context._jsc is None or spark is None:
        return
    stop(spark)


def stop(spark: SparkSession) -> None:
    """Queries first, so that their last reports still come while somebody listens. A step that fails does not hold up
    the next: the call that an interrupt has cut off may have left its connection in any state."""
    steps: tuple[Callable[[], None], ...] = (lambda: _stop_queries(spark), spark.stop)
    for step in steps:
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                step()
                break
            except KeyboardInterrupt:
                return  # someone is in a hurry
            except Exception as error:
                if not attempts_left:
                    log.warning("Spark was not stopped in order: %s", error)


def _stop_queries(spark: SparkSession) -> None:
    spark.conf.set(STOP_TIMEOUT, f"{STOP_SECONDS}s")
    for query in spark.streams.active:
        query.stop()
