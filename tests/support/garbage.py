"""Requests made of an OpenAPI description, fitting and not: no answer but those that are described, in their shapes,
and none that is the service's fault."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

HALF = "\ud800"
"""Of a pair of surrogates: JSON can say it, UTF-8 cannot. Texts that are drawn by chance have none."""
TELLING = st.sampled_from([HALF, f"a{HALF}b", '"int"', '{"type":"enum","name":"E","symbols":["A"],"doc":"\\ud800"}'])
TEXTS = st.text(max_size=8) | TELLING
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=5), max_leaves=5
)
NAMES = st.sampled_from(["t", "0", "-1", "latest", "__consumer_offsets"]) | st.text(min_size=1, max_size=6)
NUMBERS = st.sampled_from(["0", "1", "-1", "99999999999999999999", "x"])


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Roughly what is described; sometimes not."""
    kinds = schema.get("type", "any")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if "enum" in schema:
        fitting: st.SearchStrategy[Any] = st.sampled_from(schema["enum"])
    elif kind == "object":
        fields = {name: values(each) for name, each in schema.get("properties", {}).items()}
        needed = {name: fields.pop(name) for name in schema.get("required", ()) if name in fields}
        fitting = st.fixed_dictionaries(needed, optional=fields)
    elif kind == "array":
        fitting = st.lists(values(schema.get("items", {})), max_size=2)
    else:
        fitting = {"integer": st.integers(-2, 1 << 40), "string": TEXTS, "boolean": st.booleans()}.get(kind, ANYTHING)
    return fitting | ANYTHING


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        # It has no end; deleting topics would take the others' away.
        if "tail" not in path and path not in ("/metrics", "/docs", "/openapi.json")
    ]


@st.composite
def requests(draw: Callable[[Any], Any], fixed: Mapping[str, str], known: list[tuple[str, str, dict[str, Any]]]) -> Any:
    method, path, operation = draw(st.sampled_from(known))
    query = {}
    for parameter in operation["parameters"]:
        name, numeric = parameter["name"], parameter["schema"]["type"] == "integer"
        if parameter["in"] == "path":
            is_given = name in fixed and draw(st.integers(0, 9)) > 0
            value = fixed[name] if is_given else draw(NUMBERS if numeric or name.endswith("_id") else NAMES)
            path = path.replace(f"{{{name}}}", quote(value, safe="", errors="replace"))
        elif draw(st.booleans()):
            query[name] = draw(NUMBERS if numeric else NAMES)
    body, headers = None, {}
    if "requestBody" in operation:
        kind = draw(st.sampled_from(sorted(operation["requestBody"]["content"])))
        schema = operation["requestBody"]["content"][kind]["schema"]
        body = json.dumps(draw(values(schema))).encode() if draw(st.integers(0, 9)) else draw(st.binary(max_size=20))
        headers = {"Content-Type": kind}
    return method, f"{path}?{urlencode(query, errors='replace')}", body, headers, operation


def shape(operation: dict[str, Any], status: int, content_type: str) -> dict[str, Any]:
    """What is said of an answer; nothing if it may be anything."""
    described = operation["responses"][str(status)].get("content", {})
    found: dict[str, Any] = described.get(content_type.partition(";")[0], {}).get("schema", {})
    return found


def check_answers(url: str, described: dict[str, Any], count: int, fixed: Mapping[str, str]) -> None:
    """`fixed`: what parameters of paths are, nine times of ten."""
    known = operations(described)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(fixed, known))
    def check(request: Any) -> None:
        method, target, body, headers, operation = request
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        assert str(answer.status) in operation["responses"], (method, target, body, answer.status, content)
        assert answer.status not in (500, 501), (method, target, body, content)
        schema = shape(operation, answer.status, answer.getheader("content-type") or "")
        if answer.status < 300 and schema:
            problem = next(Draft202012Validator(schema).iter_errors(json.loads(content)), None)
            assert problem is None, (method, target, content, problem)
        if answer.status >= 400:
            assert {"error_code", "message"} <= json.loads(content).keys(), (method, target, content)

    with contextlib.closing(connection):
        check()
