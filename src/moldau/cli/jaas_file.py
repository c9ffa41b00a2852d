"""The files that KAFKA_OPTS names, as Kafka's users give them to their brokers, tools and ZooKeeper servers: the one
with login modules (JAAS), and Kerberos' own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.config.jaas import LoginModule

VARIABLE: Final = "KAFKA_OPTS"
KERBEROS_VARIABLE: Final = "KRB5_CONFIG"
ESCAPED: Final = re.compile(r'["\\]')
CLIENT_SECTION: Final = "KafkaClient"
JAAS: Final = "sasl.jaas.config"
MODULES: Final = {"PLAIN": "Plain", "OAUTHBEARER": "OAuthBearer", "GSSAPI": "Krb5"}
"""How the login modules of mechanisms begin; the others are SCRAM's."""


class JaasFileError(ValueError):
    """A file that is named and cannot be read."""


def jaas_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    named = re.search(r"-Djava\.security\.auth\.login\.config=(\S+)", environment.get(VARIABLE, ""))
    return None if named is None else Path(named[1])


def jaas_text(environment: Mapping[str, str] = os.environ) -> str | None:
    """None where no file is named. Raises JaasFileError."""
    path = jaas_file(environment)
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JaasFileError(f"java.security.auth.login.config={path}: {error}") from error


def use_kerberos_file(environment: MutableMapping[str, str] = os.environ) -> None:
    """Where the Kerberos servers are, as `java.security.krb5.conf` says it, unless the system's own variable does."""
    named = re.search(r"-Djava\.security\.krb5\.conf=(\S+)", environment.get(VARIABLE, ""))
    if named is not None:
        environment.setdefault(KERBEROS_VARIABLE, named[1])


def with_client_login(
    properties: Mapping[str, str], environment: MutableMapping[str, str] = os.environ
) -> dict[str, str]:
    """With the login module of the section KafkaClient, where nothing else says as whom to log in. Raises
    JaasFileError."""
    from moldau.client.login import DEFAULT_MECHANISM, chosen_mechanism, given_mechanism, uses_login

    if uses_login(properties) and (given_mechanism(properties) or DEFAULT_MECHANISM).upper() == "GSSAPI":
        use_kerberos_file(environment)
    given = JAAS in properties or "sasl.username" in properties
    if given or not uses_login(properties):
        return dict(properties)
    from moldau.config.jaas import JaasError, parse_sections

    try:
        modules = parse_sections(jaas_text(environment) or "").get(CLIENT_SECTION, ())
    except JaasError as error:
        raise JaasFileError(f"java.security.auth.login.config={jaas_file(environment)}: {error}") from None
    kind = f"{MODULES.get(chosen_mechanism(properties), 'Scram')}LoginModule"
    fitting = [module for module in modules if module.name.rpartition(".")[2] == kind]
    return {**properties, JAAS: written(fitting[0])} if fitting else dict(properties)


def written(module: LoginModule) -> str:
    options = (f'{name}="{ESCAPED.sub(_escape, value)}"' for name, value in module.options.items())
    return f"{' '.join((module.name, 'required', *options))};"


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}"
