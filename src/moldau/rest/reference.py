"""The reference page of the proxy's settings, from the code."""

from __future__ import annotations

from moldau.rest.settings import LISTENERS, SETTINGS
from moldau.web import WEB_SETTINGS


def markdown() -> str:
    rows = [f"| `listeners` | `{LISTENERS}` | Where it listens: http or https, several separated by commas. |"]
    for each in [*SETTINGS.values(), *WEB_SETTINGS.values()]:
        default = "" if each.default is None else f"`{each.default}`" if each.default else "empty"
        rows.append(f"| `{each.name}` | {default} | {each.doc} |")
    return "\n".join(
        [
            "# Settings of the REST proxy",
            "",
            "Written from the code by `make docs`. [How it is used](../howto/rest-proxy.md).",
            "The paths are described by the proxy itself, at `/openapi.json` and `/docs`.",
            "",
            "| setting | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
