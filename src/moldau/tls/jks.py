"""Java's old key store format, JKS.

    magic FEEDFEED, version int32 (1 or 2), count int32, entries, SHA-1 of password, "Mighty Aphrodite" and all before
    entry    tag int32 (1 key, 2 certificate), alias UTF, date int64, then
        key          int32 length + EncryptedPrivateKeyInfo, count int32, certificates
        certificate  (version 2: type UTF), int32 length + DER

A key is protected by Sun's own algorithm (1.3.6.1.4.1.42.2.17.1.1): a salt of 20 bytes, the key XORed with
SHA-1(password + previous digest), and SHA-1(password + key) behind it. Passwords count as UTF-16.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"
WHITENER: Final = b"Mighty Aphrodite"
PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
DIGEST_BYTES: Final = 20
KEY_ENTRY, CERTIFICATE_ENTRY = 1, 2
INT = Struct(">i")
SHORT = Struct(">H")


class JksError(ValueError):
    """The store cannot be read, or its password is another one."""


@dataclass(slots=True)
class JksContents:
    """DER throughout; the first key of the store, PKCS8, with its chain."""

    key: bytes | None = None
    chain: list[bytes] = field(default_factory=list)
    trusted: list[bytes] = field(default_factory=list)


def read_jks(data: bytes, store_password: str | None, key_password: str | None) -> JksContents:
    """Raises JksError. Without a store password the store is read, but not checked."""
    if store_password is not None:
        _check_digest(data, store_password)
    try:
        return _read_entries(_Reader(data), key_password or store_password)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise JksError("the store ends too early") from error


def _check_digest(data: bytes, password: str) -> None:
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    expected = hashlib.sha1(password.encode("utf-16-be") + WHITENER + body, usedforsecurity=False).digest()
    if not hmac.compare_digest(expected, digest):
        raise JksError("wrong password, or a damaged store")


def _read_entries(reader: _Reader, password: str | None) -> JksContents:
    if reader.take(4) != MAGIC:
        raise JksError("this is no JKS store")
    version = reader.integer()
    if version not in (1, 2):
        raise JksError(f"version {version} of the format is not known")
    found = JksContents()
    for _ in range(reader.integer()):
        tag = reader.integer()
        reader.text()
        reader.take(8)
        if tag == KEY_ENTRY:
            protected = reader.sized()
            chain = [reader.certificate(version) for _ in range(reader.integer())]
            if found.key is None:
                found.key, found.chain = _unprotected(protected, password), chain
        elif tag == CERTIFICATE_ENTRY:
            found.trusted.append(reader.certificate(version))
        else:
            raise JksError(f"an entry of kind {tag} cannot be read")
    if reader.left != DIGEST_BYTES:
        raise JksError("the store ends too early")
    return found


def _unprotected(info: bytes, password: str | None) -> bytes:
    if password is None:
        raise JksError("a password is needed for its key")
    if PROTECTOR not in info[:40]:
        raise JksError("its key is protected by an algorithm that is not JKS's own")
    data = _last_octets(info)
    salt, encrypted, check = data[:DIGEST_BYTES], data[DIGEST_BYTES:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    secret = password.encode("utf-16-be")
    key = bytearray()
    digest = salt
    for start in range(0, len(encrypted), DIGEST_BYTES):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        key += bytes(a ^ b for a, b in zip(encrypted[start : start + DIGEST_BYTES], digest, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise JksError("wrong password for its key")
    return bytes(key)


def _last_octets(info: bytes) -> bytes:
    """The OCTET STRING that ends an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { OID, NULL }, OCTET STRING }."""
    _, body = _der(info, 0)
    _, after_algorithm = _der(info, body)[0], _end(info, body)
    end, begin = _end(info, after_algorithm), _der(info, after_algorithm)[1]
    return info[begin:end]


def _der(data: bytes, position: int) -> tuple[int, int]:
    """Length and beginning of the contents of the element at this position."""
    length = data[position + 1]
    if length < 0x80:
        return length, position + 2
    count = length & 0x7F
    return int.from_bytes(data[position + 2 : position + 2 + count]), position + 2 + count


def _end(data: bytes, position: int) -> int:
    length, begin = _der(data, position)
    return begin + length


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def take(self, count: int) -> bytes:
        end = self._position + count
        if count < 0 or end > len(self._data):
            raise JksError("the store ends too early")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def integer(self) -> int:
        return int(INT.unpack(self.take(4))[0])

    def sized(self) -> bytes:
        return self.take(self.integer())

    def text(self) -> str:
        return self.take(SHORT.unpack(self.take(2))[0]).decode()

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()
        return self.sized()
