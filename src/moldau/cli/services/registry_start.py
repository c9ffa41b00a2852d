"""`moldau registry start`: settings from file and options, then the process."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.services import service_start


def start(config: Path | None, bootstrap: str | None, listen: str | None, settings: list[str]) -> None:
    given = service_start.read(config, settings, {"kafkastore.bootstrap.servers": bootstrap, "listeners": listen})
    try:
        from moldau.registry.node import KNOWN, PREFIX, RegistrySettings, serve
    except ImportError as error:
        raise service_start.missing(error) from None
    service_start.run(lambda ready: serve(RegistrySettings.of(given), ready), given, KNOWN, (PREFIX,))
