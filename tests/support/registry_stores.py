"""Certificates and a login for schema registries, in the forms that clients keep them in."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from moldau.tls.authority import issue, open_authority
from moldau.tls.stores import read_keys
from moldau.web.passwords import hash_password

LOGIN = "ann:se:cret"
PASSWORD = "changeit"


def made_stores(folder: Path) -> Path:
    now = datetime.now(UTC)
    authority = open_authority(folder, now)
    issue(authority, "registry", now, ["127.0.0.1"])
    keys = read_keys(issue(authority, "ann", now).read_bytes(), None, None)
    key, chain = load_pem_private_key(keys.key.encode(), None), load_pem_x509_certificates(keys.certificates.encode())
    (folder / "ann-key.pem").write_text(keys.key)
    (folder / "ann-certificate.pem").write_text(keys.certificates)
    locked = BestAvailableEncryption(PASSWORD.encode())
    (folder / "ann.p12").write_bytes(serialize_key_and_certificates(b"ann", key, chain[0], chain[1:], locked))  # type: ignore[arg-type]
    trusted = serialize_key_and_certificates(None, None, None, [authority.certificate], locked)
    (folder / "trusted.p12").write_bytes(trusted)
    (folder / "passwords").write_text(f"ann: {hash_password('se:cret', b'salt')},admin\n")
    return folder


def secured_settings(stores: Path) -> dict[str, str]:
    """Of a registry that asks for both."""
    return {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": str(stores / "registry.pem"),
        "ssl.truststore.location": str(stores / "ca.pem"),
        "ssl.client.authentication": "REQUIRED",
        "authentication.method": "BASIC",
        "authentication.password.file": str(stores / "passwords"),
    }
