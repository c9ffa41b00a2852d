"""`moldau services start`: registry and proxy on one event loop.

One file serves both. A key that begins with `registry.` or `rest.` is for that one alone, without the prefix; others
are for both. `bootstrap.servers` with its `client.` settings is also the registry's connection, unless `kafkastore.`
says another.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.cli.services import service_start
from moldau.config.definition import ConfigError

if TYPE_CHECKING:
    from moldau.registry.node import RegistrySettings
    from moldau.rest.settings import RestSettings

REGISTRY: Final = "registry."
REST: Final = "rest."
URL: Final = "schema.registry.url"


def start(
    config: Path | None,
    bootstrap: str | None,
    registry_listen: str | None,
    rest_listen: str | None,
    settings: list[str],
) -> None:
    options = {
        "bootstrap.servers": bootstrap,
        "registry.listeners": registry_listen,
        "rest.listeners": rest_listen,
    }
    given = service_start.read(config, settings, options)
    try:
        from moldau.registry import node as registry_node
        from moldau.rest import settings as rest_settings
    except ImportError as error:
        raise service_start.missing(error) from None

    async def serve(ready: Callable[[str], None]) -> None:
        registry = registry_node.RegistrySettings.of(for_registry(given))
        asked = for_one(given, REST)
        own_registry = not asked.get(URL)
        # Its address is known when it listens; until then another one stands in.
        rest = rest_settings.RestSettings.of({**asked, URL: "http://127.0.0.1:1"} if own_registry else asked)
        await serve_both(registry, rest, ready, own_registry=own_registry)

    bare = [key.removeprefix(REGISTRY).removeprefix(REST) for key in given]
    known = registry_node.KNOWN | rest_settings.KNOWN
    prefixes = (registry_node.PREFIX, *rest_settings.PREFIXES, service_start.REGISTRY_CLIENT)
    service_start.run(serve, bare, known, prefixes)


def for_one(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    if "listeners" in given:
        raise ConfigError("listeners", given["listeners"], "say registry.listeners and rest.listeners: there are two")
    shared = {key: value for key, value in given.items() if not key.startswith((REGISTRY, REST))}
    own = {key[len(prefix) :]: value for key, value in given.items() if key.startswith(prefix)}
    return {**shared, **own}


def for_registry(given: Mapping[str, str]) -> dict[str, str]:
    found = for_one(given, REGISTRY)
    connection = {
        f"kafkastore.{key.removeprefix('client.')}": value
        for key, value in found.items()
        if key == "bootstrap.servers" or (key.startswith("client.") and not key.endswith(".timeout.ms"))
    }
    return {**connection, **found}


async def serve_both(
    registry_settings: RegistrySettings,
    rest_settings: RestSettings,
    ready: Callable[[str], None],
    *,
    own_registry: bool,
) -> None:
    from moldau.registry import node as registry_node
    from moldau.rest import node as rest_node

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with registry_node.running(registry_settings) as (registry_service, registry):
        if own_registry:
            rest_settings = rest_settings.asking(address(registry_service.listeners[0]))
        async with rest_node.running(rest_settings) as (rest_service, proxy):
            await registry.until_ready()
            await rest_node.until_reached(proxy)
            ready(",".join(map(str, (*registry_service.listeners, *rest_service.listeners))))
            await stopped.wait()
            # The proxy first: what it finishes may need the registry.
            await rest_service.close()
        await registry_service.close()


def address(listener: object) -> str:
    """Under which this process reaches its own listener."""
    return str(listener).replace("://0.0.0.0:", "://127.0.0.1:").replace("://:::", "://[::1]:")
