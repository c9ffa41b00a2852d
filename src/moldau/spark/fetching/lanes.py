"""A lane: one connection to the cluster and, once there is more than one answer to fetch, a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from moldau.spark.fetching.partition_fetcher import PartitionFetcher
from moldau.spark.fetching.pieces import Piece, Pieces
from moldau.spark.fetching.pool import borrow, give_back

if TYPE_CHECKING:
    from moldau.client.settings import ClientSettings
    from moldau.spark.fetching.read_settings import ReadSettings

JOIN_SECONDS: Final = 5.0


class Lane:
    def __init__(
        self, pieces: Pieces, client: ClientSettings, settings: ReadSettings, when_cut: Callable[[], None]
    ) -> None:
        self._pieces = pieces
        self._settings = settings
        self._when_cut = when_cut
        self._cluster = borrow(client)
        self._fetcher: PartitionFetcher | None = None
        self._thread: Thread | None = None
        self._leaving = Lock()
        self._has_left = False
        self._is_unwanted = False

    def start(self, piece: Piece | None = None) -> None:
        """Goes on with a piece, or with the next that nobody fetches; then with the others."""
        self._thread = Thread(target=self._work, args=(piece,), name="moldau-fetch", daemon=True)
        self._thread.start()

    def fetch(self, piece: Piece) -> bool:
        """The next answer of a piece; false if there is nothing up to its end."""
        fetcher = self._fetcher_of(piece)
        size = fetcher.next_bytes
        self._pieces.reserve(piece, size)
        try:
            answer = fetcher.fetch(piece.reached)
            if answer is not None:
                self._pieces.put(piece, answer)
        finally:
            self._pieces.free(size)
        return answer is not None and not piece.is_fetched

    def close(self) -> None:
        """After the pieces were stopped, or all of them read."""
        with self._leaving:
            self._is_unwanted = True
            has_left = self._has_left
        if self._thread is None:
            self.leave(clean=False)
            return
        connection = None if self._fetcher is None else self._fetcher.connection
        if not has_left and connection is not None:
            connection.interrupt()
        self._thread.join(JOIN_SECONDS)

    def leave(self, *, clean: bool) -> None:
        """The connection is given back only if nobody can interrupt it any more."""
        with self._leaving:
            if self._has_left:
                return
            self._has_left = True
            clean = clean and not self._is_unwanted
        if clean:
            give_back(self._cluster)
        else:
            self._cluster.close()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _work(self, piece: Piece | None) -> None:
        piece = piece or self._pieces.take()
        while piece is not None:
            failure: BaseException | None = None
            try:
                self._fill(piece)
            except BaseException as error:  # whatever it is, it is raised where the rows are wanted
                failure = error
            following = self._pieces.take() if failure is None else None
            if following is None:
                self.leave(clean=failure is None)
            self._pieces.end(piece, failure)
            piece = following
        self.leave(clean=True)

    def _fill(self, piece: Piece) -> None:
        while not (self._is_far and self._pieces.cut(piece)):
            if not self.fetch(piece):
                return
        self._when_cut()

    @property
    def _is_far(self) -> bool:
        connection = None if self._fetcher is None else self._fetcher.connection
        return connection is not None and connection.round_trip_seconds >= self._settings.far_seconds

    def _fetcher_of(self, piece: Piece) -> PartitionFetcher:
        if self._fetcher is None or self._fetcher.split is not piece.split:
            self._fetcher = PartitionFetcher(
                self._cluster, piece.split, self._settings, piece.expected_bytes, sleep=self._pieces.sleep
            )
        return self._fetcher
