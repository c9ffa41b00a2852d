"""The reference page of Connect: settings of workers and connectors, converters, transforms, from the code."""

from __future__ import annotations

import inspect
import sys

from moldau.connect.connector_settings import SINK, SOURCE
from moldau.connect.converter_names import CONVERTERS
from moldau.connect.definitions import ConfigDef
from moldau.connect.interface import SinkConnector
from moldau.connect.plugins import BUILT_IN, find, kind_of
from moldau.connect.transforms.catalogue import PREDICATES, TRANSFORMS
from moldau.connect.worker.settings import LISTENERS, SETTINGS
from moldau.web import WEB_SETTINGS


def markdown() -> str:
    lines = [
        "# Connect",
        "",
        "Written by `make docs` from the code. [How it is used](../howto/connect.md).",
        "The paths are described by a worker itself, at `/openapi.json` and `/docs`.",
        "",
        "## Workers",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
        f"| `listeners` | `{LISTENERS}` | Where it listens: http or https, several separated by commas. |",
    ]
    lines += [row(each.name, each.default, each.doc) for each in (*SETTINGS.values(), *WEB_SETTINGS.values())]
    lines += ["", "## Every source", "", *table(SOURCE), "", "## Every sink", "", *table(SINK)]
    for built_in in BUILT_IN:
        connector = find(built_in.java)
        lines += ["", f"## {built_in.simple}", "", f"A {kind_of(connector)}; `{built_in.java}`."]
        if issubclass(connector, SinkConnector) and connector.EXACT:
            lines.append(f"Exact: {connector.EXACT}.")
        notes = inspect.cleandoc(sys.modules[connector.__module__].__doc__ or "")
        lines += ["", notes, "", *table(connector.CONFIG)]
    for title, named in (("Converters", CONVERTERS), ("Predicates", PREDICATES)):
        for java, plugin in named.items():
            lines += ["", f"## {title[:-1]} {java.rsplit('.', 1)[-1]}", "", f"`{java}`", "", *table(plugin.CONFIG)]
    for java, (transform, _) in TRANSFORMS.items():
        lines += ["", f"## Transform {java.rsplit('.', 1)[-1]}", "", inspect.cleandoc(transform.__doc__ or "")]
        lines += ["", *table(transform.CONFIG)]
    return "\n".join(lines) + "\n"


def table(definition: ConfigDef) -> list[str]:
    keys = list(definition)
    if not keys:
        return ["It has no settings."]
    rows = [row(key.name, "needed" if key.required else key.default_text, key.doc) for key in keys]
    return ["| setting | default | meaning |", "|---|---|---|", *rows]


def row(name: str, default: object, doc: str) -> str:
    shown = "" if default is None else "needed" if default == "needed" else f"`{default}`" if default else "empty"
    return f"| `{name}` | {shown} | {doc.replace('|', chr(92) + '|')} |"
