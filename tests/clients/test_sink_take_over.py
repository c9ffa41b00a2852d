"""Tasks of a new run that begin at the same moment: one takes the sink over, and none gives up because of another."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Barrier

from moldau.spark.writing.identity import Attempt
from moldau.spark.writing.links import Links
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.sink_state import SinkRegister
from moldau.spark.writing.transactions import Patience
from tests.support.sink import Sink

TASKS = 6
RUNS = 10
PATIENCE = Patience(30.0, 60_000)


def test_tasks_that_begin_together(address: str, topic: str) -> None:
    sink = Sink(address, topic, query=topic)
    barrier = Barrier(TASKS)
    with ExitStack() as stack, ThreadPoolExecutor(TASKS) as workers:
        links = [stack.enter_context(closing(Links(sink.write_options.client))) for _ in range(TASKS)]
        stores = [MarkerStore(each.cluster, sink.identity.group, PATIENCE.retry_seconds) for each in links]
        registers = [
            SinkRegister(each.cluster, sink.identity, store, PATIENCE, time.monotonic)
            for each, store in zip(links, stores, strict=True)
        ]

        def take_over(run: int, task: int) -> None:
            barrier.wait()
            registers[task].take_over(Attempt(f"run-{run}", f"write-{run}", run, task))

        for run in range(RUNS):
            list(workers.map(take_over, [run] * TASKS, range(TASKS)))
            state = registers[0].state()
            assert state is not None
            assert (state.run, state.open) == (f"run-{run}", True)
