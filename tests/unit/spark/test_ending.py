"""What is told when a query fails, a program is interrupted, or Spark would refuse an output mode."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import pytest

from moldau.spark.ending import INTERRUPTED, Interrupt, one_line_for_interrupts
from moldau.spark.listener import cause_of
from moldau.spark.output_modes import OutputModeUnsupported, refuse_update_mode

TRACED = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] thrown: Traceback (most recent call last):
  File "job.py", line 3, in parse
    return int(text)
ValueError: invalid literal for int() with base 10: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "job.py", line 5, in parse
    raise KeyError(text)
KeyError: 'x'
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1097)
"""


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        (TRACED, "KeyError: 'x'"),
        ("java.lang.IllegalStateException: no room\n\tat java.lang.Thread", "java.lang.IllegalStateException: no room"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_a_query_has_failed(report: str, cause: str) -> None:
    assert cause_of(report) == cause


def test_an_interrupt_is_one_line_and_other_errors_are_told_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[BaseException] = []
    hook = one_line_for_interrupts(lambda kind, error, trace: told.append(error))
    hook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert (capsys.readouterr().err, told) == (f"{INTERRUPTED}\n", [])
    hook(ValueError, error := ValueError("x"), None)
    assert (capsys.readouterr().err, told) == ("", [error])


def test_an_interrupt_is_raised_when_queries_have_ended_and_the_second_one_at_once() -> None:
    ended = []
    interrupt = Interrupt(lambda: ended.append(threading.current_thread()))
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    assert len(ended) == 1 and ended[0] is not threading.current_thread()

    hanging, let_go = threading.Event(), threading.Event()

    def end() -> None:
        if hanging.is_set():
            ended.append(threading.current_thread())
        hanging.set()
        let_go.wait(30)

    interrupt = Interrupt(end)
    first = threading.Thread(target=lambda: suppressed(interrupt))
    first.start()
    assert hanging.wait(30)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    let_go.set()
    first.join()
    assert len(ended) == 1, "nothing is ended twice"


def suppressed(interrupt: Interrupt) -> None:
    with suppress(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


class Writer:
    """As much as PySpark's has."""

    started = 0

    def format(self, source: str) -> Writer:
        return self

    def outputMode(self, mode: str) -> Writer:  # noqa: N802
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: str | None = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
    ) -> str | None:
        self.started += 1
        return queryName


class TestUpdateMode:
    @pytest.fixture(autouse=True)
    def writer_class(self) -> type[Writer]:
        class Taught(Writer): ...

        for _ in range(2):
            refuse_update_mode(Taught)
        return Taught

    def test_is_refused_for_this_sink_alone(self, writer_class: type[Writer]) -> None:
        for writer, more in (
            (writer_class().format("moldau").outputMode("update"), {}),
            (writer_class().outputMode("Update").format("Moldau"), {}),
            (writer_class(), {"format": "moldau", "outputMode": "update"}),
        ):
            with pytest.raises(OutputModeUnsupported, match=r"foreachBatch\(exactly_once\("):
                writer.start(**more)
            assert writer.started == 0
        for source, mode in (("moldau", "append"), ("moldau", "complete"), ("console", "update")):
            assert writer_class().format(source).outputMode(mode).start(queryName="q") == "q"
        assert writer_class().outputMode("update").start(None, "parquet", None, None, "q") == "q"

    def test_a_writer_knows_nothing_of_another(self, writer_class: type[Writer]) -> None:
        writer_class().outputMode("update")
        writer_class().format("moldau").start()
