"""From a command's address of a schema registry and its properties to the registry."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from moldau.cli.output import WRONG_USAGE, CommandError
from moldau.client.errors import SettingError
from moldau.clients.registry_access import Access


def access_to(option: str, url: str, properties: Mapping[str, str]) -> Access:
    """`user:password@` may stand before the host."""
    where = urlsplit(url)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise CommandError(f"{option} {url}: expected http://host:port", exit_code=WRONG_USAGE)
    try:
        return Access.of({**properties, "schema.registry.url": url})
    except SettingError as error:
        raise CommandError(str(error), exit_code=WRONG_USAGE) from None
