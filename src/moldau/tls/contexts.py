"""From Kafka's `ssl.*` settings to SSL contexts, for a listener and for connections to other brokers."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, TypeVar

from moldau.config.tls import TlsSettings
from moldau.tls.identity import load_identity
from moldau.tls.stores import Keys, StoreError, pem_keys, read_keys, read_trusted

T = TypeVar("T")

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
SUITES_OF_1_3: Final = ("TLS_AES", "TLS_CHACHA")
VERIFICATION: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsError(ValueError):
    """What is wrong with which setting."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """What a listener shows its clients, and asks of them. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, settings)
    keys = _keys(settings)
    if keys is None:
        raise TlsError("ssl.keystore.location", "a listener with TLS needs a private key and a certificate")
    _load(context, keys)
    context.verify_mode = VERIFICATION[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """How this broker looks at others of its cluster. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, settings)
    context.check_hostname = settings.check_hostname
    keys = _keys(settings)
    if keys is not None:
        _load(context, keys)
    _trust(context, settings, ssl.Purpose.SERVER_AUTH)
    return context


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Where suites are named, a version that none of them is for is not spoken, as in Java."""
    older = [openssl_name(name) for name in settings.cipher_suites if not name.startswith(SUITES_OF_1_3)]
    suited = {"TLSv1.2": len(older), "TLSv1.3": len(settings.cipher_suites) - len(older)}
    versions = [VERSIONS[name] for name in settings.enabled_protocols if suited[name] or not settings.cipher_suites]
    if not versions:
        enabled = ", ".join(settings.enabled_protocols)
        raise TlsError("ssl.cipher.suites", f"none of {', '.join(settings.cipher_suites)} is for {enabled}")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise TlsError("ssl.cipher.suites", f"none of {', '.join(settings.cipher_suites)} is known") from None


def unknown_suites(settings: TlsSettings) -> list[str]:
    """Those of `ssl.cipher.suites` that OpenSSL does not know, and that nobody is offered therefore."""
    return [name for name in settings.cipher_suites if not _is_known(name)]


def _is_known(suite: str) -> bool:
    if suite.startswith(SUITES_OF_1_3):
        return suite in {str(each["name"]) for each in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()}
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl_name(suite))
    except ssl.SSLError:
        return False
    return True


def openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384 there."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_").removeprefix("RSA_")
    for java, openssl in (("AES_128_CBC", "AES128"), ("AES_256_CBC", "AES256"), ("AES_128", "AES128"),
                          ("AES_256", "AES256"), ("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")):  # fmt: skip
        name = name.replace(java, openssl)
    return name.replace("_", "-")


def _keys(settings: TlsSettings) -> Keys | None:
    if settings.keystore_key is not None or settings.keystore_certificate_chain is not None:
        if settings.keystore_key is None or settings.keystore_certificate_chain is None:
            raise TlsError("ssl.keystore.key", "it needs ssl.keystore.certificate.chain, and the other way round")
        text = f"{settings.keystore_key}\n{settings.keystore_certificate_chain}"
        return _told("ssl.keystore.key", lambda: pem_keys(text, settings.key_password))
    path = settings.keystore_location
    if path is None:
        return None
    data = _contents("ssl.keystore.location", path)
    setting = f"ssl.keystore.location {path}"
    return _told(setting, lambda: read_keys(data, settings.keystore_password, settings.key_password))


def _trust(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    if settings.truststore_certificates is not None:
        setting, data = "ssl.truststore.certificates", settings.truststore_certificates.encode()
    elif settings.truststore_location is not None:
        setting = f"ssl.truststore.location {settings.truststore_location}"
        data = _contents("ssl.truststore.location", settings.truststore_location)
    else:
        context.load_default_certs(purpose)
        return
    trusted = _told(setting, lambda: read_trusted(data, settings.truststore_password))
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise TlsError(setting, f"a certificate cannot be read: {error.reason or error}") from None


def _told(setting: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except StoreError as error:
        raise TlsError(setting, str(error)) from None


def _contents(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise TlsError(setting, f"{path}: {error.strerror}") from None


def _load(context: ssl.SSLContext, keys: Keys) -> None:
    try:
        load_identity(context, keys.text, keys.password or "")
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        raise TlsError("ssl.keystore", f"key and certificate cannot be used: {reason}") from None
