"""Kafka: The Definitive Guide, chapter 3: card payments are approved or denied, each exactly once.

The rules engine reads payments and writes its decisions and the place where it reads on in one transaction. If it dies
in the middle, nobody sees what it has written so far, and the next one starts at the payment that it died of. Approved
payments of more than 10,000 are reported beside that, in the same transaction.

python examples/clients/card_payments.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
from typing import Any

from moldau import Consumer, Producer

LIMIT = 10_000
LARGEST = 50_000
PER_TRANSACTION = 50


def decision(payment: dict[str, Any]) -> str:
    return "approved" if 0 < payment["amount"] <= LARGEST else "denied"


def decide(
    bootstrap: str,
    payments: str,
    decisions: str,
    alerts: str,
    *,
    idle_seconds: float | None = None,
    die_after: int = -1,
) -> None:
    """`die_after` payments it raises, in the middle of a transaction."""
    common = {"bootstrap.servers": bootstrap}
    reading = {**common, "group.id": f"{payments}-rules", "auto.offset.reset": "earliest", "enable.auto.commit": False,
               "isolation.level": "read_committed", "max.poll.records": PER_TRANSACTION}  # fmt: skip
    writing = {
        **common,
        "transactional.id": f"{payments}-rules",
        "key.serializer": "string",
        "value.serializer": "json",
    }
    seen = 0
    with Consumer(reading, value_deserializer="json") as consumer, Producer(writing) as producer:
        consumer.subscribe([payments])
        while True:
            records = consumer.poll(1.0 if idle_seconds is None else idle_seconds)
            if not records and idle_seconds is not None:
                return
            if not records:
                continue
            with producer.transaction() as transaction:
                for record in records:
                    if seen == die_after:
                        raise RuntimeError("the program died")
                    seen += 1
                    payment = record.value
                    producer.send(decisions, {**payment, "decision": decision(payment)}, payment["id"])
                    if payment["amount"] > LIMIT and decision(payment) == "approved":
                        producer.send(alerts, payment, payment["id"])
                transaction.send_offsets(consumer)


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    decide(address, f"{prefix}payments", f"{prefix}decisions", f"{prefix}alerts")
