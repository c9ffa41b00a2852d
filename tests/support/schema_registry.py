"""A schema registry in memory, over HTTP, with the four requests that readers and writers make.

It lets in who gives `user_info`, if it has one, and answers every request with `failure` while that is set.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from moldau.schemas.model import guid_of

NOT_FOUND: tuple[int, dict[str, Any]] = (404, {"error_code": 40403, "message": "Schema not found"})


class SchemaRegistry:
    def __init__(self, user_info: str = "") -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.user_info = user_info
        self.requests: list[str] = []
        self.failure: int | None = None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(*(self.refusal() or registry.get(self.path)))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(*(self.refusal() or registry.post(self.path, body)))

            def refusal(self) -> tuple[int, dict[str, Any]] | None:
                if registry.failure is not None:
                    return registry.failure, {"message": "out of order"}
                expected = f"Basic {base64.b64encode(registry.user_info.encode()).decode()}"
                if registry.user_info and self.headers.get("Authorization") != expected:
                    return 401, {"error_code": 401, "message": "Unauthorized"}
                return None

            def answer(self, status: int, body: dict[str, Any]) -> None:
                registry.requests.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}".strip())
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Tests look at `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> SchemaRegistry:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, subject: str, schema: str, **more: Any) -> int:
        entry = {"schema": schema, **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        schema_id = self.schemas.index(entry) + 1
        self.subjects.setdefault(subject, []).append(schema_id)
        return schema_id

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        parts = [unquote(part) for part in path.partition("?")[0].split("/")[1:]]
        if parts[:2] == ["schemas", "ids"] and 0 < int(parts[2]) <= len(self.schemas):
            return 200, self.schemas[int(parts[2]) - 1]
        if parts[:2] == ["schemas", "guids"]:
            return next(((200, each) for each in self.schemas if guid_of(each["schema"]) == parts[2]), NOT_FOUND)
        if parts[0] == "subjects" and parts[2] == "versions" and parts[1] in self.subjects:
            versions = self.subjects[parts[1]]
            version = len(versions) if parts[3] == "latest" else int(parts[3])
            if 0 < version <= len(versions):
                schema_id = versions[version - 1]
                return 200, {"id": schema_id, "version": version, **self.schemas[schema_id - 1]}
        return NOT_FOUND

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        parts = [unquote(part) for part in path.split("/")[1:]]
        if parts[2:] == ["versions"]:
            return 200, {"id": self.add(parts[1], body["schema"])}
        known = self.subjects.get(parts[1], [])
        found = [schema_id for schema_id in known if self.schemas[schema_id - 1]["schema"] == body["schema"]]
        return (200, {"id": found[0]}) if found else (404, {"error_code": 40403, "message": "Schema not found"})
