"""The password file: one user a line, `name: hash,role,role`; `#` begins a comment.

The hash is `scrypt$N$r$p$salt$key` (salt and key in base64), made by `hash_password`. Plain passwords are refused.
A hash costs tens of milliseconds by design, so who was checked once is remembered by a keyed digest of what was given.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.config.definition import ConfigError
from moldau.web.api import ROLES

FILE_KEY: Final = "authentication.password.file"
COST: Final = (16384, 8, 1)
REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class User:
    name: str
    password: str
    roles: frozenset[str]

    def may(self, role: str) -> bool:
        return bool(self.roles & set(ROLES[ROLES.index(role) :]))


def hash_password(password: str, salt: bytes) -> str:
    key = scrypt(password, salt, *COST)
    return "$".join(["scrypt", *map(str, COST), base64.b64encode(salt).decode(), base64.b64encode(key).decode()])


def scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=32)


def matches(password: str, hashed: str) -> bool:
    _, n, r, p, salt, key = hashed.split("$")
    return hmac.compare_digest(scrypt(password, base64.b64decode(salt), int(n), int(r), int(p)), base64.b64decode(key))


def read_users(path: Path) -> dict[str, User]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(FILE_KEY, str(path), str(error)) from None
    users = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            user = read_user(line, f"{path}, line {number}")
            users[user.name] = user
    return users


def read_user(line: str, where: str) -> User:
    name, colon, rest = line.partition(":")
    password, *roles = [part.strip() for part in rest.split(",")]
    if not colon or not name.strip():
        raise ConfigError(FILE_KEY, where, "a line is `name: hash,role,…`")
    unknown = [role for role in roles if role not in ROLES]
    if unknown or not roles:
        raise ConfigError(FILE_KEY, where, f"{unknown or 'no role'}: roles are {', '.join(ROLES)}")
    check_hash(password, where)
    return User(name.strip(), password, frozenset(roles))


def check_hash(hashed: str, where: str) -> None:
    parts = hashed.split("$")
    try:
        if len(parts) != 6 or parts[0] != "scrypt" or not 1 < int(parts[1]) <= 1 << 20:
            raise ValueError
        _ = int(parts[2]), int(parts[3]), base64.b64decode(parts[4]), base64.b64decode(parts[5])
    except (ValueError, binascii.Error):
        raise ConfigError(FILE_KEY, where, "not a hash; `moldau registry hash-password` makes one") from None


class Users:
    def __init__(self, users: dict[str, User]) -> None:
        self._users = users
        #: What is hashed for those who are not there, so that the time of an answer does not tell who is.
        self._stand_in = next((user.password for user in users.values()), "")
        self._key = os.urandom(32)
        self._checked: dict[str, bytes] = {}

    def known(self, name: str, password: str) -> User | None:
        """Without hashing: a user whose password was checked before."""
        remembered = self._checked.get(name)
        if remembered is not None and hmac.compare_digest(remembered, self._digest(name, password)):
            return self._users.get(name)
        return None

    def check(self, name: str, password: str) -> User | None:
        """Hashes, so call it in a thread."""
        user = self._users.get(name)
        hashed = self._stand_in if user is None else user.password
        if not hashed or not matches(password, hashed) or user is None:
            return None
        if len(self._checked) >= REMEMBERED:
            self._checked.clear()
        self._checked[name] = self._digest(name, password)
        return user

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
