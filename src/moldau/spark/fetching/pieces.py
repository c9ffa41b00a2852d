"""The answers of a split that wait to be read, in the split's order, between the task and the lanes that fetch them.

At first the split is one piece, fetched by one lane: a request begins where the answer before it ended, so only one can
be under way. Where the broker is far away the rest of the split is cut into pieces of about one answer each, judging by
the last one that came, and several lanes fetch them side by side. A piece is read like a split of its own, so nothing
is read twice or left out wherever it was cut.

Answers that wait and those that are under way are bounded by a byte budget; the piece that the task reads may always
get its next one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from threading import Condition

from moldau.spark.fetching.partition_fetcher import Answer
from moldau.spark.split import Split


class Stopped(Exception):
    """Nobody wants the rest."""


class Piece:
    """A part of a split and its answers that wait."""

    __slots__ = ("answers", "expected_bytes", "failure", "is_over", "reached", "split")

    def __init__(self, split: Split, expected_bytes: int | None = None) -> None:
        self.split = split
        self.expected_bytes = expected_bytes
        self.reached = split.start
        """Where the next fetch begins."""
        self.answers: deque[Answer] = deque()
        self.is_over = False
        self.failure: BaseException | None = None

    @property
    def is_fetched(self) -> bool:
        return self.reached >= self.split.end


class Pieces:
    def __init__(
        self,
        split: Split,
        budget_bytes: int,
        *,
        piece_bytes: int,
        cut_budget_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget_bytes
        self._cut_budget = cut_budget_bytes
        self._piece_bytes = piece_bytes
        self._monotonic = monotonic
        self._changed = Condition()
        self._untaken: Split | None = split
        self._in_order: deque[Piece] = deque()
        self._offsets_in_piece = 0
        """As many as `piece_bytes` will hold; 0 while no answer has come that tells."""
        self._margin_bytes = 0
        self._is_cut = False
        self._bytes = 0
        self._stopped = False

    # -- the task --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Piece]:
        while (piece := self._first()) is not None:
            yield piece
            with self._changed:
                self._in_order.popleft()
                self._changed.notify_all()

    def _first(self) -> Piece | None:
        with self._changed:
            while not self._in_order and self._untaken is not None:
                self._changed.wait()
            return self._in_order[0] if self._in_order else None

    def answers(self, piece: Piece) -> Iterator[Answer]:
        """Of the piece that is read, as they come."""
        while (answer := self._next(piece)) is not None:
            yield answer

    def _next(self, piece: Piece) -> Answer | None:
        with self._changed:
            while not piece.answers and not piece.is_over:
                self._changed.wait()
            if piece.answers:
                answer = piece.answers.popleft()
                self._bytes -= answer.size
                self._changed.notify_all()
                return answer
            if piece.failure is not None:
                raise piece.failure
            return None

    @property
    def has_more(self) -> bool:
        """Whether an answer waits already: then rows may wait for it, otherwise they should go on their way."""
        with self._changed:
            read, *following = islice(self._in_order, 2)
            return bool(read.answers) or (read.is_over and any(piece.answers for piece in following))

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # -- the lanes -------------------------------------------------------------------------------------------------

    def take(self) -> Piece | None:
        """The next piece that nobody fetches yet: all that is left, unless it has been cut."""
        with self._changed:
            rest = self._untaken
            if rest is None or self._stopped:
                return None
            piece = self._next_part(rest) if self._is_cut else Piece(rest)
            end = piece.split.end
            self._untaken = replace(rest, start=end) if end < rest.end else None
            self._in_order.append(piece)
            self._changed.notify_all()
            return piece

    def _next_part(self, rest: Split) -> Piece:
        end = min(rest.end, rest.start + self._offsets_in_piece)
        return Piece(replace(rest, end=end), self._piece_bytes + self._margin_bytes)

    def cut(self, piece: Piece) -> bool:
        """Ends the one piece where it has got to, if it is worth it to fetch what is left of it side by side."""
        with self._changed:
            left = piece.split.end - piece.reached
            if self._is_cut or not self._offsets_in_piece or left < 2 * self._offsets_in_piece:
                return False
            self._is_cut = True
            self._budget = self._cut_budget
            self._untaken = replace(piece.split, start=piece.reached)
            return True

    def has_room(self, piece: Piece, size: int) -> bool:
        is_needed_next = piece is self._in_order[0] and not piece.answers
        return is_needed_next or self._bytes + size <= self._budget

    def reserve(self, piece: Piece, size: int) -> None:
        """Waits until there is room for an answer of this size."""
        with self._changed:
            while not self._stopped and not self.has_room(piece, size):
                self._changed.wait()
            if self._stopped:
                raise Stopped
            self._bytes += size

    def free(self, size: int) -> None:
        """Gives back what was reserved."""
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def put(self, piece: Piece, answer: Answer) -> None:
        with self._changed:
            self._learn_from(answer, answer.next_offset - piece.reached)
            piece.reached = answer.next_offset
            piece.answers.append(answer)
            self._bytes += answer.size
            self._changed.notify_all()

    def _learn_from(self, answer: Answer, offsets: int) -> None:
        """A piece begins and ends somewhere in a batch, and batches come whole."""
        if answer.batches and offsets > 0:
            self._offsets_in_piece = max(1, self._piece_bytes * offsets // answer.size)
            self._margin_bytes = 2 * answer.size // answer.batches

    def end(self, piece: Piece, failure: BaseException | None = None) -> None:
        """No answer will come to the piece any more. What went wrong is raised where its rows are wanted."""
        with self._changed:
            piece.failure = failure
            piece.is_over = True
            self._changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Ends early, with an exception, where nobody wants the rest."""
        deadline = self._monotonic() + seconds
        with self._changed:
            while not self._stopped and (left := deadline - self._monotonic()) > 0:
                self._changed.wait(left)
            if self._stopped:
                raise Stopped
