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


class TransactionLost(Exception):
    """A transaction cannot go on; no retry cures it, so it is no `ClientError`."""


class Fenced(TransactionLost):
    """Somebody else has taken the transactional id."""


class TransactionTimedOut(TransactionLost):
    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"the broker has ended the transaction of {transactional_id!r}: it was open for longer than its time-out. "
            "Raise transaction.timeout.ms (the broker caps it with transaction.max.timeout.ms; Spark's sink calls it "
            "kafka.transaction.timeout.ms), or write less at a time (the sink's stageBytes)"
        )
