"""A client's key and trust stores under Java's names, in whatever form they have: what is no PEM file is read here.

PEM files are left to whoever makes the connection, by their path. What counts as one: `ssl.….type=PEM`, or a name that
says so. Everything else is PKCS12 or JKS, seen from the contents: keytool writes either under the name `.jks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from moldau.client.errors import SettingError
from moldau.tls.stores import Keys, StoreError, read_keys, read_trusted

T = TypeVar("T")

PEM_SUFFIXES: Final = (".pem", ".crt", ".cer", ".key")


def is_pem_file(properties: Mapping[str, str], store: str) -> bool:
    """`store` is truststore or keystore."""
    named = properties.get(f"ssl.{store}.type")
    if named:
        return named.strip().upper() == "PEM"
    return properties[f"ssl.{store}.location"].lower().endswith(PEM_SUFFIXES)


def trusted_certificates(properties: Mapping[str, str]) -> str | None:
    """The trust store as PEM, where it has to be read; raises SettingError."""
    location = properties.get("ssl.truststore.location")
    if location is None or is_pem_file(properties, "truststore"):
        return None
    password = properties.get("ssl.truststore.password")
    return _read("truststore", location, lambda data: read_trusted(data, password))


def identity(properties: Mapping[str, str]) -> Keys | None:
    """The key store, where it has to be read; raises SettingError."""
    location = properties.get("ssl.keystore.location")
    if location is None or is_pem_file(properties, "keystore"):
        return None
    password, key_password = properties.get("ssl.keystore.password"), properties.get("ssl.key.password")
    return _read("keystore", location, lambda data: read_keys(data, password, key_password))


def _read(store: str, location: str, read: Callable[[bytes], T]) -> T:
    setting = f"ssl.{store}.location"
    try:
        with open(location, "rb") as file:
            return read(file.read())
    except OSError as error:
        raise SettingError(setting, f"{location}: {error.strerror}") from None
    except StoreError as error:
        raise SettingError(setting, f"{location}: {error} (see also ssl.{store}.password)") from None
