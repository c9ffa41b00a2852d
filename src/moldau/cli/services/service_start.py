"""What starting any HTTP service shares: settings from file and options, errors in one line, an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from moldau.cli.output import FAILED, UNREACHABLE, WRONG_USAGE, CommandError, warn_of_readers
from moldau.client.errors import SettingError
from moldau.config import properties
from moldau.config.definition import ConfigError
from moldau.config.service_tables import tell_unknown

REGISTRY_CLIENT: Final = "schema.registry."
"""The prefix of the settings with which a schema registry is asked."""


def read(config: Path | None, settings: list[str], options: Mapping[str, str | None]) -> dict[str, str]:
    """Options win over --set, and that over the file."""
    try:
        found = properties.read(config) if config is not None else {}
    except (OSError, properties.PropertiesError) as error:
        raise CommandError(f"{config}: {error}", exit_code=WRONG_USAGE) from None
    if config is not None:
        warn_of_readers(config, found)
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals:
            raise CommandError(f"--set {each}: expected KEY=VALUE", exit_code=WRONG_USAGE)
        found[key.strip()] = value
    return found | {key: value for key, value in options.items() if value is not None}


def run(
    serve: Callable[[Callable[[str], None]], Coroutine[Any, Any, None]],
    given: Iterable[str],
    known: Iterable[str],
    prefixes: tuple[str, ...],
) -> None:
    """`serve` gets what tells that it is ready, and returns when the service was stopped. `given`: the settings, of
    which those are told that are not `known`."""
    try:
        import starlette  # noqa: F401  # what the services stand on
        import uvicorn  # noqa: F401
        from confluent_kafka import KafkaException
    except ImportError as error:
        raise missing(error) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("moldau.access").propagate = True
    tell_unknown(given, known, prefixes)
    try:
        asyncio.run(serve(lambda where: print(f"ready: {where}", flush=True)))
    except (ConfigError, SettingError, ValueError) as error:
        raise CommandError(str(error), exit_code=WRONG_USAGE) from None
    except KafkaException as error:
        raise CommandError(f"the brokers cannot be reached: {error}", exit_code=UNREACHABLE) from None
    except ConnectionError as error:
        raise CommandError(str(error), exit_code=UNREACHABLE) from None
    except OSError as error:
        raise CommandError(str(error), exit_code=FAILED) from None


def missing(error: ImportError) -> CommandError:
    return CommandError(f"{error}: pip install 'moldau[services]'", exit_code=FAILED)
