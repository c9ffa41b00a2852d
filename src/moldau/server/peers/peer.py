"""How this broker talks to the others: who they are, one call, and what may go wrong with it.

A peer is found by its id. Where it listens is read from the cluster's image at the moment of the call; connections are
opened on demand, one per lane, and closed when the broker leaves the image or comes back as another incarnation.
Nobody calls themselves through here: whoever uses peers serves its own broker by a direct way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)


class PeerLostError(Exception):
    """The broker is not known, cannot be reached, closed the connection or did not answer in time.

    What was asked may or may not have been done.
    """


class NotLetInError(PeerLostError):
    """The other side does not take us for a broker of its cluster, or we do not trust it: somebody has to mend a
    setting, a password or a certificate.
    """


@dataclass(frozen=True, slots=True)
class Lane:
    """Answers on a connection come in the order of their requests, so what may wait long has a connection of its own.

    `fetch` is for long polls, one lane for each fetcher; `CONTROL` for short questions; `FORWARD` for requests of
    clients, which may take their time; `MARKERS` and `TRANSACTIONS` for writes that wait for replicas; `LINK` says
    nothing and is only there to end when the other broker does.
    """

    name: str
    index: int = 0

    CONTROL: ClassVar[Lane]
    FORWARD: ClassVar[Lane]
    MARKERS: ClassVar[Lane]
    TRANSACTIONS: ClassVar[Lane]
    LINK: ClassVar[Lane]

    @classmethod
    def fetch(cls, index: int = 0) -> Lane:
        return cls("fetch", index)

    def __str__(self) -> str:
        return f"{self.name}-{self.index}" if self.index else self.name


Lane.CONTROL = Lane("control")
Lane.FORWARD = Lane("forward")
Lane.MARKERS = Lane("markers")
Lane.TRANSACTIONS = Lane("transactions")
Lane.LINK = Lane("link")


class Peer(Protocol):
    @property
    def broker_id(self) -> int: ...

    async def call(
        self,
        request: Message,
        answer_class: type[R],
        lane: Lane = Lane.CONTROL,
        *,
        timeout_seconds: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """The answer, at the highest version that both sides know; raises PeerLostError.

        `bytes` fields of the answer are views of the received frame, which lives as long as one of them does.
        """
        ...


class Peers(Protocol):
    def get(self, broker_id: int) -> Peer:
        """Never fails: calls to a broker that the image does not know raise PeerLostError."""
        ...
