"""The settings with which a schema registry is reached, for all that ask one: Python's clients, Spark, Connect.

Imports nothing: planners and command lines read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

URL: Final = "schema.registry.url"
PREFIX: Final = "schema.registry."
SSL: Final = f"{PREFIX}ssl."


class AccessKey(NamedTuple):
    name: str
    doc: str
    secret: bool = False


LOGIN_KEYS: Final = (
    AccessKey("basic.auth.user.info", "`user:password` for the schema registry", secret=True),
    AccessKey("bearer.auth.token", "the token that it is shown instead of a login", secret=True),
    AccessKey("bearer.auth.credentials.source", "`STATIC_TOKEN`, where it is named: the token is `bearer.auth.token`"),
)
"""With and without the registry's prefix, as Java's serializers take them."""
SSL_KEYS: Final = (
    AccessKey("truststore.location", "certificates that the registry's is checked with: a PEM, PKCS12 or JKS file"),
    AccessKey("truststore.password", "the password of that file, if it is PKCS12 or JKS", secret=True),
    AccessKey("truststore.type", "`PEM`, where the file's name does not say so"),
    AccessKey("truststore.certificates", "the certificates themselves, as PEM, instead of a file"),
    AccessKey("keystore.location", "the key and certificate that are shown to the registry: PEM, PKCS12 or JKS"),
    AccessKey("keystore.password", "the password of that file", secret=True),
    AccessKey("keystore.type", "`PEM`, where the file's name does not say so"),
    AccessKey("keystore.key", "the key itself, as PEM, instead of a file", secret=True),
    AccessKey("keystore.certificate.chain", "the certificate itself, as PEM"),
    AccessKey("key.password", "the password of the key, where it has one of its own", secret=True),
    AccessKey("ca.location", "as in Confluent's Python client: a PEM file of certificates to trust"),
    AccessKey("certificate.location", "likewise, of the certificate that is shown"),
    AccessKey("key.location", "likewise, of its key"),
    AccessKey("endpoint.identification.algorithm", "empty: the name in the registry's certificate is not looked at"),
)
"""Behind `schema.registry.ssl.`."""
ACCESS_KEYS: Final = (
    *(each._replace(name=f"{PREFIX}{each.name}") for each in LOGIN_KEYS),
    *LOGIN_KEYS,
    *(each._replace(name=f"{SSL}{each.name}") for each in SSL_KEYS),
)
NAMES: Final = tuple(each.name for each in ACCESS_KEYS)


def of_access(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those of the properties that say who asks, and how it is trusted."""
    return tuple((name, properties[name]) for name in NAMES if properties.get(name) is not None)
