"""The files with secrets that a broker is started with, and those that everybody on the machine may read or write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.config.broker import BrokerConfig


def warnings_of_readers(
    file: Path | None, in_file: Mapping[str, str], given: Mapping[str, str], config: BrokerConfig
) -> list[str]:
    """`in_file` is what the file says, `given` everything, before it is looked up. The broker itself tells of key
    stores: they may change while it runs."""
    from moldau.config.open_files import warning_of_readers

    found = (warning_of_readers(path, what) for path, what in dict(_files(file, in_file, given, config)).items())
    return [warning for warning in found if warning is not None]


def _files(
    file: Path | None, in_file: Mapping[str, str], given: Mapping[str, str], config: BrokerConfig
) -> Iterator[tuple[Path, str]]:
    from moldau.cli.jaas_file import jaas_file
    from moldau.config.broker_checks import is_secret
    from moldau.config.providers import files_of

    if file is not None and any(map(is_secret, in_file)):
        yield file, "passwords"
    modules = jaas_file()
    if modules is not None:
        yield modules, "login modules"
    for path in sorted(files_of(given)):
        yield path, "what settings refer to"
    for security in config.security.values():
        if security.kerberos is not None:
            yield Path(security.kerberos.keytab), "Kerberos keys"
