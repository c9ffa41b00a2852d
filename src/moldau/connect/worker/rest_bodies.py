"""Configurations in the bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.worker.errors import bad_request
from moldau.web.application import to_json


def texts(given: Any) -> dict[str, str | None]:
    """Values of a configuration are texts; numbers and truth values are taken as they are written."""
    if not isinstance(given, Mapping):
        raise bad_request("the configuration has to be an object with texts as values")
    found: dict[str, str | None] = {}
    for key, value in given.items():
        if isinstance(value, Mapping | list):
            raise bad_request(f"the value of {key} has to be a text")
        found[str(key)] = value if value is None or isinstance(value, str) else str(to_json(value), "utf-8")
    return found


def named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    included = config.get("name")
    if included is not None and included != name:
        raise bad_request(f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}
