"""Kafka in Action 4.1: a website's feedback goes into a topic and not into a mailbox, so that several may read it, each
at its own pace: support answers each entry, and somebody looks for trends.

python examples/clients/feedback_form.py localhost:9092 8000
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

from moldau import Consumer, Producer

TOPIC: Final = "feedback"
LONGEST: Final = 10_000
PAGE: Final = b"""<!doctype html><title>Feedback</title><form method="post">
<label>Subject <input name="subject"></label> <label>What is it? <textarea name="text"></textarea></label>
<button>Send</button></form>"""


class FeedbackForm(BaseHTTPRequestHandler):
    def __init__(self, producer: Producer, topic: str, *given: Any) -> None:
        self._producer = producer
        self._topic = topic
        super().__init__(*given)

    def do_GET(self) -> None:
        self._answer(200, PAGE)

    def do_POST(self) -> None:
        size = min(int(self.headers.get("Content-Length", 0)), LONGEST)
        entry = {name: values[0] for name, values in parse_qs(self.rfile.read(size).decode()).items()}
        self._producer.send(self._topic, entry).result(30)
        self._answer(200, b"Thank you!")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The topic tells it all."""


def serve(producer: Producer, port: int, topic: str = TOPIC) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", port), partial(FeedbackForm, producer, topic))


def reader(bootstrap: str, group: str) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer(settings, value_deserializer="json")


def to_answer(bootstrap: str, topic: str, group: str, idle_seconds: float) -> list[str]:
    """What support has not seen yet."""
    with reader(bootstrap, group) as consumer:
        consumer.subscribe([topic])
        return [record.value["text"] for record in consumer.records(idle_seconds)]


def trends(bootstrap: str, topic: str, group: str, idle_seconds: float) -> Counter[str]:
    """What people write about, over all that was ever written."""
    with reader(bootstrap, group) as consumer:
        consumer.subscribe([topic])
        return Counter(record.value["subject"] for record in consumer.records(idle_seconds))


if __name__ == "__main__":
    with Producer(bootstrap_servers=sys.argv[1], value_serializer="json") as sending:
        serve(sending, int(sys.argv[2])).serve_forever()
