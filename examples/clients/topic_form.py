"""Kafka in Action 9.1.1: a form in the browser with which teams make topics of their own; names follow a rule.

python examples/clients/topic_form.py localhost:9092 8000
"""

from __future__ import annotations

import re
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs

from moldau import Admin
from moldau.clients.errors import KafkaFailure

NAME: Final = re.compile(r"[a-z]+\.[a-z][a-z0-9-]*")
RULE: Final = "team.purpose: small letters, one dot"
LONGEST_FORM: Final = 10_000
PAGE: Final = """<!doctype html><title>Topics</title><p>{said}</p><form method="post">
<label>Name ({rule}) <input name="name"></label> <label>Partitions <input name="partitions" value="1"></label>
<label>Replicas <input name="replicas" value="1"></label> <button>Create</button></form>"""


class TopicForm(BaseHTTPRequestHandler):
    def __init__(self, bootstrap: str, *given: object) -> None:
        self._bootstrap = bootstrap
        super().__init__(*given)  # type: ignore[arg-type]  # socketserver's own arguments

    def do_GET(self) -> None:
        self._answer(200, "A topic for your team:")

    def do_POST(self) -> None:
        size = min(int(self.headers.get("Content-Length", 0)), LONGEST_FORM)
        fields = {name: values[0] for name, values in parse_qs(self.rfile.read(size).decode()).items()}
        self._answer(*created(self._bootstrap, fields))

    def _answer(self, status: int, said: str) -> None:
        body = PAGE.format(said=said, rule=RULE).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def created(bootstrap: str, fields: dict[str, str]) -> tuple[int, str]:
    name = fields.get("name", "")
    if not NAME.fullmatch(name):
        return 422, f"The name does not follow the rule. {RULE}"
    try:
        partitions, replicas = int(fields.get("partitions", "1")), int(fields.get("replicas", "1"))
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic(name, partitions, replicas)
    except ValueError:
        return 422, "Partitions and replicas are numbers."
    except KafkaFailure as error:
        return 409, f"Not created: {error.cause}"
    return 201, f"The topic {name} is there."


def server(bootstrap: str, port: int = 0) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("localhost", port), partial(TopicForm, bootstrap))


if __name__ == "__main__":
    server(sys.argv[1], int(sys.argv[2])).serve_forever()
