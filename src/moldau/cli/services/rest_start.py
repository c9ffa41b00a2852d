"""`moldau rest start`: settings from file and options, then the process."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.services import service_start


def start(
    config: Path | None, bootstrap: str | None, registry: str | None, listen: str | None, settings: list[str]
) -> None:
    options = {"bootstrap.servers": bootstrap, "schema.registry.url": registry, "listeners": listen}
    given = service_start.read(config, settings, options)
    try:
        from moldau.rest.node import serve
        from moldau.rest.settings import KNOWN, PREFIXES, RestSettings
    except ImportError as error:
        raise service_start.missing(error) from None
    prefixes = (*PREFIXES, service_start.REGISTRY_CLIENT)
    service_start.run(lambda ready: serve(RestSettings.of(given), ready), given, KNOWN, prefixes)
