"""How a client says who it is: the SASL mechanism and the line for Java's login modules (`sasl.jaas.config`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from moldau.client.errors import SettingError

WIRE_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""What this client can always do itself; OAUTHBEARER and GSSAPI it can with what they need."""
MECHANISMS: Final = (*WIRE_MECHANISMS, "OAUTHBEARER", "GSSAPI")
DEFAULT_MECHANISM: Final = "GSSAPI"
MECHANISM_KEYS: Final = ("sasl.mechanism", "sasl.mechanisms")
"""Java's name and librdkafka's."""

JAAS_FIELD: Final = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
)


def uses_login(properties: Mapping[str, str]) -> bool:
    return properties.get("security.protocol", "").upper().startswith("SASL")


def given_mechanism(properties: Mapping[str, str]) -> str | None:
    return next((properties[key] for key in MECHANISM_KEYS if properties.get(key)), None)


def chosen_mechanism(properties: Mapping[str, str]) -> str:
    mechanism = (given_mechanism(properties) or DEFAULT_MECHANISM).strip().upper()
    if mechanism not in MECHANISMS:
        raise SettingError(MECHANISM_KEYS[0], f"{mechanism!r} is none of {', '.join(MECHANISMS)}")
    return mechanism


def described_mechanism(properties: Mapping[str, str]) -> str:
    """For a message: whoever gave none has to learn where it comes from."""
    mechanism = chosen_mechanism(properties)
    by_default = "" if given_mechanism(properties) else ", Kafka's default where no mechanism is given,"
    return f"{mechanism}{by_default}"


def jaas_fields(line: str) -> dict[str, str]:
    """The options of a login module; values may stand in quotes of either kind, or bare."""
    return {name: bare or unescape(double or single) for name, double, single, bare in JAAS_FIELD.findall(line)}


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
