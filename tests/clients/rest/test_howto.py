"""The page about the proxy: what its curl commands ask is asked as it is printed, in their order."""

from __future__ import annotations

import json
import shlex
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_howto import BLOCK
from tests.support.rest import Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "rest-proxy.md"
BASE_URI = "$BASE_URI"


def asked(command: str) -> Any:
    """What curl would print, as JSON."""
    words = iter(shlex.split(command)[1:])
    method, headers, body, url = None, {}, None, ""
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words).encode()
            case _:
                url = word
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def test_requests_over_http_alone_write_and_read(proxy: Proxy, topic: str) -> None:
    """RST-01."""
    (block,) = [each for each in BLOCK.findall(PAGE.read_text().replace("\\\n", "")) if BASE_URI in each]
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ curl ")]
    places = {"localhost:8082": proxy.url, "orders": topic, "group1": topic}
    for written, real in places.items():
        commands = [each.replace(written, real) for each in commands]
    write, make, subscribe, read, delete = commands
    asked(write)
    base_uri = asked(make)["base_uri"]
    subscribe, read, delete = (each.replace(BASE_URI, base_uri) for each in (subscribe, read, delete))
    asked(subscribe)
    (record,) = wait_until(lambda: asked(read), "the record is read", 60)
    asked(delete)
    assert (record["topic"], record["key"], record["value"]) == (topic, "a", {"n": 1})
