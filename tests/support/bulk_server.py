"""An HTTP server that judges what sinks send: a bulk API with the rules of Elasticsearch and OpenSearch, and any paths.

Not a server of theirs: it keeps the parts of the protocol that the sink relies on (external versions, a type for each
field, ids of at most 512 bytes, the form of requests and answers) and refuses whatever breaks a rule.
`tests/connect/test_search.py` puts the same questions to a real OpenSearch. It fails on request: busy, gone, torn.
"""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Fault:
    """What happens to a request instead of, or behind, what it asks for."""

    answer: Answer | None = None
    """Given without doing anything."""
    cut: str = ""
    """`before` or `after` the request is carried out the connection ends."""
    busy_items: int = 0
    """So many documents of the bulk are answered with 429."""


@dataclass
class Document:
    source: dict[str, Any]
    version: int
    deleted: bool = False


@dataclass
class BulkServer:
    faults: list[Fault] = field(default_factory=list)
    """For the next requests, in their order."""
    login: str = ""
    most_bytes: int = 1 << 30
    requests: list[Request] = field(default_factory=list)
    indices: dict[str, dict[str, Document]] = field(default_factory=dict)
    kinds: dict[tuple[str, str], type] = field(default_factory=dict)
    broken_rules: list[str] = field(default_factory=list)
    received: dict[str, bytes] = field(default_factory=dict)
    """Of the plain API: what was put under each path, with the method in front."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self.start(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self.broken_rules == []

    def start(self, port: int) -> None:
        judge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body are two writes: the second would wait 40 ms for a client's acknowledgement.
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def handle_one(self) -> None:
                judge._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 (names of http.server)

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def documents(self, index: str) -> dict[str, dict[str, Any]]:
        found = self.indices.get(index, {})
        return {name: each.source for name, each in sorted(found.items()) if not each.deleted}

    # -- requests ----------------------------------------------------------------------------------------------------

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        if len(body) < length:  # whoever sent it was killed
            handler.close_connection = True
            return
        headers = {name.lower(): value for name, value in handler.headers.items()}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = Request(handler.command, handler.path, headers, body)
        with self._lock:
            self.requests.append(request)
            fault = self.faults.pop(0) if self.faults else Fault()
            if fault.cut == "before":
                handler.close_connection = True
                return
            status, more, content = fault.answer or self._answer(request, fault.busy_items)
            if fault.cut == "after":
                handler.close_connection = True
                return
        handler.send_response(status)
        for name, value in {**more, "Content-Length": str(len(content))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _answer(self, request: Request, busy: int) -> Answer:
        if self.login and request.headers.get("authorization") != self.login:
            return 401, {}, b'{"error":"missing authentication credentials"}'
        if len(request.body) > self.most_bytes:
            return 413, {}, b"too large"
        if request.path == "/_bulk":
            return self._bulk(request, busy)
        key = f"{request.method} {request.path}"
        if request.method == "DELETE":
            return (200, {}, b"") if self.received.pop(f"PUT {request.path}", None) is not None else (404, {}, b"")
        self.received[key] = request.body
        return 200, {}, b"{}"

    # -- the bulk API ------------------------------------------------------------------------------------------------

    def _bulk(self, request: Request, busy: int) -> Answer:
        if request.headers.get("content-type") not in ("application/x-ndjson", "application/json"):
            self.broken_rules.append(f"content type {request.headers.get('content-type')}")
            return 406, {}, b"content type"
        if not request.body.endswith(b"\n"):
            self.broken_rules.append("a bulk ends with a line feed")
            return 400, {}, b"The bulk request must be terminated by a newline [\\n]"
        lines = [json.loads(line) for line in request.body.split(b"\n")[:-1]]
        items = []
        while lines:
            ((kind, head),) = lines.pop(0).items()
            content = None if kind == "delete" else lines.pop(0)
            if len(head["_id"].encode()) > 512:
                return 400, {}, b'{"error":"id is too long, must be no longer than 512 bytes"}'
            if busy:
                busy -= 1
                items.append({kind: {"status": 429, "error": {"type": "rejected_execution_exception"}}})
            else:
                items.append({kind: self._item(kind, head, content)})
        return (
            200,
            {},
            json.dumps({"errors": any("error" in next(iter(i.values())) for i in items), "items": items}).encode(),
        )

    def _item(self, kind: str, head: dict[str, Any], content: Any) -> dict[str, Any]:
        index, name = head["_index"], head["_id"]
        if index != index.lower():
            return failed(400, "invalid_index_name_exception", f"Invalid index name [{index}], must be lowercase")
        known = self.indices.setdefault(index, {})
        there = known.get(name)
        version = head.get("version")
        if version is not None and head.get("version_type") != "external":
            self.broken_rules.append(f"a version of its own without version_type: {head}")
        if version is not None and there is not None and version <= there.version:
            told = f"version conflict, current version [{there.version}] is higher or equal to the one provided"
            return failed(409, "version_conflict_engine_exception", told)
        fresh = version if version is not None else 1 if there is None else there.version + 1
        if kind == "delete":
            gone = there is None or there.deleted
            known[name] = Document({}, fresh, deleted=True)
            return {"status": 404 if gone else 200, "result": "not_found" if gone else "deleted"}
        source = content["doc"] if kind == "update" else content
        if kind == "update" and there is not None and not there.deleted:
            source = {**there.source, **source}
        problem = self._mapped(index, source)
        if problem:
            return problem
        known[name] = Document(source, fresh)
        return {"status": 200, "result": "updated" if there else "created"}

    def _mapped(self, index: str, source: dict[str, Any]) -> dict[str, Any] | None:
        """The first value of a field says its type, as dynamic mappings do."""
        for name, value in source.items():
            if value is None:
                continue
            kind = self.kinds.setdefault((index, name), type(value))
            if kind in (int, float) and not isinstance(value, int | float):
                told = f"failed to parse field [{name}] of type [long]"
                return failed(400, "mapper_parsing_exception", told)
        return None


def failed(status: int, kind: str, reason: str) -> dict[str, Any]:
    return {"status": status, "error": {"type": kind, "reason": reason}}


def busy(status: int = 429, retry_after: str | None = None) -> Fault:
    return Fault((status, {} if retry_after is None else {"Retry-After": retry_after}, b"busy"))
