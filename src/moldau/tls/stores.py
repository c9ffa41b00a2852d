"""Key and trust stores in whatever form they have: PEM, PKCS12 (what keytool writes since Java 9) or JKS.

The form is seen from the contents, as Java does for its own two: `ssl.keystore.type` is JKS by default, and means both.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field

from moldau.tls.jks import MAGIC, JksContents, JksError, read_jks

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)


class StoreError(ValueError):
    """Why a store cannot be used; never with anything of its contents."""


@dataclass(frozen=True, slots=True)
class Keys:
    """A private key with its certificate chain, the owner's first, as PEM; `password` if the key is encrypted."""

    text: str = field(repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        found = _KEY.search(self.text)
        assert found is not None
        return f"{found.group()}\n"

    @property
    def certificates(self) -> str:
        return "\n".join((*_CERTIFICATE.findall(self.text), ""))


def read_keys(data: bytes, store_password: str | None, key_password: str | None) -> Keys:
    """Raises StoreError."""
    if data.startswith(MAGIC):
        found = _jks(data, store_password, key_password)
        if found.key is None:
            raise StoreError("the store holds no private key")
        return Keys(_pem_key(found.key) + "".join(map(ssl.DER_cert_to_PEM_cert, found.chain)))
    if b"-----BEGIN" in data:
        return pem_keys(_text(data), key_password or store_password)
    return _pkcs12_keys(data, store_password)


def pem_keys(text: str, password: str | None) -> Keys:
    """Kafka wants them in one text; their order does not matter here. Raises StoreError."""
    key = _KEY.search(text)
    certificates = _CERTIFICATE.findall(text)
    if key is None:
        raise StoreError("there is no PEM private key in it")
    if not certificates:
        raise StoreError("there is no PEM certificate in it")
    encrypted = "ENCRYPTED" in key.group()
    if encrypted and password is None:
        raise StoreError("the private key is encrypted, and there is no password for it")
    return Keys("\n".join((key.group(), *certificates, "")), password if encrypted else None)


def read_trusted(data: bytes, password: str | None) -> str:
    """The certificates of a trust store as PEM. Raises StoreError."""
    if data.startswith(MAGIC):
        found = _jks(data, password, None)
        certificates = [ssl.DER_cert_to_PEM_cert(each) for each in (*found.trusted, *found.chain)]
    elif b"-----BEGIN" in data:
        certificates = _CERTIFICATE.findall(_text(data))
    else:
        certificates = _pkcs12_certificates(data, password)
    if not certificates:
        raise StoreError("there is no certificate in it")
    return "\n".join((*certificates, ""))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise StoreError("it is no text") from None


def _jks(data: bytes, store_password: str | None, key_password: str | None) -> JksContents:
    try:
        return read_jks(data, store_password, key_password)
    except JksError as error:
        raise StoreError(str(error)) from None


def _pem_key(der: bytes) -> str:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return _as_pem(load_der_private_key(der, None))
    except (ValueError, TypeError) as error:
        raise StoreError(f"the private key cannot be read: {error}") from None


def _as_pem(key: object) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    written: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return written.decode()


def _pkcs12(data: bytes, password: str | None) -> tuple[object | None, list[str]]:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        found = load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise StoreError(f"neither PEM nor JKS, and not to be read as PKCS12: {error}") from None
    entries = ([found.cert] if found.cert is not None else []) + list(found.additional_certs)
    return found.key, [entry.certificate.public_bytes(Encoding.PEM).decode() for entry in entries]


def _pkcs12_keys(data: bytes, password: str | None) -> Keys:
    key, certificates = _pkcs12(data, password)
    if key is None:
        raise StoreError("the store holds no private key")
    return Keys(_as_pem(key) + "".join(certificates))


def _pkcs12_certificates(data: bytes, password: str | None) -> list[str]:
    return _pkcs12(data, password)[1]
