"""What a librdkafka client tells its user beyond what it mends by itself."""

from __future__ import annotations

from confluent_kafka import KafkaError

#: What a broker that goes away looks like.
PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._DESTROY)
#: What the brokers say while a coordinator moves; the client asks again.
MOVING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


class Worries:
    """`hear` is an `error_cb`, and for the errors that come where messages do."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def hear(self, error: KafkaError) -> None:
        if error.code() not in (*PASSING, *MOVING) and not error.retriable():
            self.told.append(f"{error.name()}: {error.str()}")

    def check(self) -> None:
        assert self.told == [], f"a client was told: {self.told[:10]}"
