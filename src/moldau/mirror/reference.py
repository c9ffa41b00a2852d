"""The reference page of the mirror's settings, from the code."""

from __future__ import annotations

from moldau.mirror.settings import SETTINGS


def markdown() -> str:
    rows = []
    for each in SETTINGS.values():
        default = "" if each.default is None else f"`{each.default}`".replace("|", "\\|") if each.default else "empty"
        rows.append(f"| `{each.name}` | {default} | {each.doc} |")
    return "\n".join(
        [
            "# Settings of the mirror",
            "",
            "Written from the code by `make docs`. [How it is used](../howto/mirroring.md).",
            "",
            "Each may stand alone, for all flows; behind the alias of a target (`eu.replication.factor`), for all",
            "flows into it; or behind a pair (`us->eu.topics`), for that flow. What concerns connections stands behind",
            "the alias of a cluster (`us.bootstrap.servers`), for reading alone behind `us.consumer.`, for writing",
            "behind `us.producer.`.",
            "",
            "| setting | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
