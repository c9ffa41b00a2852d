"""A certificate authority for development: it signs what brokers and clients of one's own machine need.

Its key lies in a file beside the rest. Nothing here is for a network that strangers can reach.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, Name

AUTHORITY_NAME: Final = "Moldau development CA"
LEEWAY: Final = timedelta(minutes=5)
"""Clocks differ: a certificate is valid from a little before it was made."""


@dataclass(frozen=True, slots=True)
class Authority:
    """In `folder`: ca.pem is what others trust, ca-key.pem what signs."""

    folder: Path
    key: EllipticCurvePrivateKey
    certificate: Certificate

    @property
    def certificate_file(self) -> Path:
        return self.folder / "ca.pem"


def open_authority(folder: Path, now: datetime, days: int = 3650) -> Authority:
    """The authority of this folder; made where there is none. Raises OSError, ValueError."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate

    key_file, certificate_file = folder / "ca-key.pem", folder / "ca.pem"
    if not key_file.exists():
        return _make(folder, days, now)
    key = load_pem_private_key(key_file.read_bytes(), None)
    return Authority(folder, key, load_pem_x509_certificate(certificate_file.read_bytes()))  # type: ignore[arg-type]


def issue(authority: Authority, name: str, now: datetime, hosts: Sequence[str] = (), days: int = 365) -> Path:
    """<name>.pem with a private key, its certificate and the authority's: a key store as Kafka reads PEM."""
    from cryptography.x509 import BasicConstraints, ExtendedKeyUsage, SubjectAlternativeName
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = _new_key()
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_name(name), authority.certificate.subject, key, days, now)
    builder = builder.add_extension(BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(ExtendedKeyUsage(usages), critical=False)
    if hosts:
        builder = builder.add_extension(SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    certificate = builder.sign(authority.key, _hash())
    path = authority.folder / f"{name}.pem"
    _write(path, _key_pem(key) + _certificate_pem(certificate) + _certificate_pem(authority.certificate), 0o600)
    return path


def _make(folder: Path, days: int, now: datetime) -> Authority:
    from cryptography.x509 import BasicConstraints, KeyUsage

    folder.mkdir(parents=True, exist_ok=True)
    key = _new_key()
    name = _name(AUTHORITY_NAME)
    usage = KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _builder(name, name, key, days, now)
    builder = builder.add_extension(BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = builder.add_extension(usage, critical=True).sign(key, _hash())
    _write(folder / "ca-key.pem", _key_pem(key), 0o600)
    _write(folder / "ca.pem", _certificate_pem(certificate), 0o644)
    return Authority(folder, key, certificate)


def _builder(subject: Name, issuer: Name, key: EllipticCurvePrivateKey, days: int, now: datetime) -> CertificateBuilder:
    from cryptography.x509 import CertificateBuilder, random_serial_number

    begin, end = now - LEEWAY, now + timedelta(days=days)
    builder = CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return builder.serial_number(random_serial_number()).not_valid_before(min(begin, end)).not_valid_after(end)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _hash() -> SHA256:
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def _name(common_name: str) -> Name:
    from cryptography.x509 import Name, NameAttribute
    from cryptography.x509.oid import NameOID

    return Name([NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> GeneralName:
    from cryptography.x509 import DNSName, IPAddress

    try:
        return IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return DNSName(host)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _write(path: Path, data: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
