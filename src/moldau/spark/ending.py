"""How a program with a session ends: at its last line, by an error, by Ctrl-C; with or without `spark.stop()`.

Left to itself, Python takes the listener away while Spark still reports to it: the last batch's offsets are not
published, and Spark tells of the loss with stack traces. So whatever still runs is stopped first.

Ctrl-C needs more care. PySpark answers it by asking Spark something on the connection that is being waited on, which
only makes three stack traces of it. And an exception in the middle of a call lets the gateway between Python and Java
close its other connections too, the listener's among them. So queries are stopped by a thread with a connection of its
own, and their last reports awaited, before the interrupt is raised.
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
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_TIMEOUT: Final = "spark.sql.streaming.stopTimeout"
STOP_SECONDS: Final = 20
"""A query that waits for a broker which is away would hold the end up for as long as its patience lasts."""
LISTEN_SECONDS: Final = 10
"""For the last reports of queries that were stopped."""
INTERRUPTED: Final = "interrupted: the queries are stopped; started again, they go on from their checkpoints"
SPARKS_MODULE: Final = "pyspark.core.context"
TOLD_BY_THE_GATEWAY: Final = (
    (None, "KeyboardInterrupt while sending command."),
    ("py4j.clientserver", "Exception occurred while shutting down connection"),
)

ATTEMPTS: Final = 2

log = logging.getLogger(__name__)

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def end_well() -> None:
    """To be called after a session was made; each session's context sets its own handler for Ctrl-C."""
    _install_once(os.getpid())
    if threading.current_thread() is threading.main_thread() and not is_interactive():
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", None) == SPARKS_MODULE:
            signal.signal(signal.SIGINT, Interrupt(_stop_queries_and_listen))


class Interrupt:
    """Lets queries end, then raises; a second Ctrl-C meanwhile raises at once."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._ending: threading.Thread | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._ending is None or not self._ending.is_alive():
            self._ending = threading.Thread(target=self._end, daemon=True)
            self._ending.start()
            self._ending.join(STOP_SECONDS + LISTEN_SECONDS)
        raise KeyboardInterrupt


def is_interactive() -> bool:
    """There Ctrl-C ends what is computed, and the program goes on."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules


@cache
def _install_once(process: int) -> None:
    def stop_what_runs() -> None:
        if os.getpid() == process:
            stop_active_session()

    atexit.register(stop_what_runs)
    for name, told in TOLD_BY_THE_GATEWAY:
        logging.getLogger(name).addFilter(lambda record, told=told: record.msg != told)  # type: ignore[misc]
    if not is_interactive():
        sys.excepthook = one_line_for_interrupts(sys.excepthook)


def one_line_for_interrupts(otherwise: Hook) -> Hook:
    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.stderr.write(f"{INTERRUPTED}\n")
        else:
            otherwise(kind, error, trace)

    return hook


def active_session() -> SparkSession | None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    return None if context is None or context._jsc is None else SparkSession._instantiatedSession


def stop_active_session() -> None:
    spark = active_session()
    if spark is not None:
        stop(spark)


def _stop_queries_and_listen() -> None:
    spark = active_session()
    if spark is None:
        return
    try:
        _stop_queries(spark)
        spark.sparkContext.cancelAllJobs()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(LISTEN_SECONDS * 1000)
    except Exception as error:
        log.warning("queries were not stopped in order: %s", error)


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
