"""The worker of `moldau.spark.session()`: PySpark's own, on a connection that acknowledges at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from moldau.spark.session import WORKER_MODULE
from pyspark_moldau.worker import acknowledge_at_once

linux_only = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="this system has no such setting")


@linux_only
def test_acknowledgements_are_sent_at_once_and_the_connection_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as there:
        here, _ = server.accept()
        with here:
            here.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            acknowledge_at_once(here.fileno())
            assert here.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
            there.sendall(b"task")
            assert here.recv(4) == b"task"


def test_a_connection_that_is_not_tcp_is_left_alone() -> None:
    here, there = socket.socketpair()
    with here, there:
        acknowledge_at_once(here.fileno())
        there.sendall(b"task")
        assert here.recv(4) == b"task"


def test_tasks_run_in_it(spark: SparkSession) -> None:
    def look(_: Iterator[int]) -> Iterator[list[str]]:
        yield sys.argv[1:]

    assert spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect() == [[WORKER_MODULE]]
