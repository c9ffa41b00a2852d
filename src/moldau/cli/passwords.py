"""What is never shown again of what somebody wrote: passwords and private keys."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"
WORDS: Final = ("password", "passphrase", "secret", "jaas.config", "key.pem", "keystore.key", "user.info", "scram-sha-")


def is_secret(name: str) -> bool:
    """By the name of a setting, which may be a client's, a broker's or nobody's."""
    return any(word in name.lower() for word in WORDS)


def shown(name: str, value: str) -> str:
    return f"{name}={HIDDEN if is_secret(name) else value}"


def shown_pairs(text: str) -> str:
    """Of `k1=v1,k2=[v1,v2]`: all before the first secret; what follows may belong to a password with a comma."""
    kept: list[str] = []
    for pair in re.split(r",(?=[^\]]*(?:\[|$))", text):
        name, equals, _ = pair.partition("=")
        if not equals or is_secret(pair):
            return ",".join([*kept, f"{name}={HIDDEN}" if equals else HIDDEN])
        kept.append(pair)
    return text
