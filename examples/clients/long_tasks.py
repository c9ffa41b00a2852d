"""Kafka's documentation, "Detecting consumer failures": a task that takes longer than max.poll.interval.ms is done in
another thread, while this one goes on polling, with its partitions paused, and commits when the task is done.

python examples/clients/long_tasks.py localhost:9092
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from moldau import Consumer
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import ConsumerRecord


def run(
    properties: Mapping[str, object],
    topic: str,
    task: Callable[[ConsumerRecord], None],
    *,
    listener: RebalanceListener | None = None,
    most: int | None = None,
) -> None:
    """One record after the other, `most` in all. A record whose task failed is not committed, and comes again."""
    settings = {**properties, "enable.auto.commit": False, "max.poll.records": 1}
    done = 0
    with ThreadPoolExecutor(1) as worker, Consumer(settings) as consumer:
        consumer.subscribe([topic], listener)
        while most is None or done < most:
            for record in consumer.poll(1.0):
                under_way = worker.submit(task, record)
                consumer.pause(*consumer.assignment())
                while not under_way.done():
                    for early in consumer.poll(0.1):  # of a partition that came meanwhile
                        consumer.seek(early.topic_partition, early.offset)
                        consumer.pause(early.topic_partition)
                under_way.result()
                if record.topic_partition in consumer.assignment():
                    consumer.commit({record.topic_partition: record.offset + 1})
                consumer.resume(*consumer.assignment())
                done += 1


if __name__ == "__main__":
    run({"bootstrap.servers": sys.argv[1], "group.id": "long-tasks"}, "tasks", lambda record: time.sleep(600))
