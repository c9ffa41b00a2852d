"""What can go wrong between this process and a broker."""

from __future__ import annotations


class ClientError(Exception):
    """Base of this package's errors; the message names the broker and the cause."""


class SettingError(ClientError):
    """A client setting has a value that cannot be used."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key


class ConnectionLost(ClientError):
    """The broker cannot be reached, closed the connection, or did not answer in time."""


class AuthenticationFailed(ClientError):
    """The broker refused the credentials or the mechanism; trying again would not help."""


class VersionUnsupported(ClientError):
    """The broker does not serve this API, or none of the versions that the request allows."""
