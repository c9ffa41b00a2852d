"""From settings to an SSL context."""

from __future__ import annotations

import ssl
from functools import cache

from moldau.client.errors import SettingError
from moldau.client.settings import TlsSettings
from moldau.tls.identity import load_identity


@cache
def context_for(settings: TlsSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file, cadata=settings.ca_text)
    except OSError as error:
        raise SettingError("ssl.truststore.location", f"cannot be read: {error}") from error
    context.check_hostname = settings.verify_hostname and settings.verify_certificate
    if not settings.verify_certificate:
        context.verify_mode = ssl.CERT_NONE
    try:
        _load_identity(context, settings)
    except OSError as error:
        raise SettingError("ssl.keystore.location", f"cannot be read: {error}") from error
    return context


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.identity_text is not None:
        load_identity(context, settings.identity_text, settings.key_password)
    elif settings.certificate_file is not None:
        context.load_cert_chain(settings.certificate_file, settings.key_file, settings.key_password)
