"""JSON objects that follow each other in one stream, cut out of it as they arrive."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from moldau.rest import errors
from moldau.rest.formats import refuse
from moldau.web.call import DEEPEST, is_too_deep

BLANK: Final = re.compile(r"[ \t\r\n]*")
MARK: Final = re.compile(r'["\\{}\[\]]')
DECODER: Final = json.JSONDecoder(parse_constant=refuse)


class Documents:
    """`feed` gives what is complete. An object that is no JSON is an error, after which nothing more is read, since
    nobody can say where the next one begins."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        """Up to where the unfinished object was looked through, and what it was within."""
        self._depth = 0
        self._quoted = False
        self.failed = False

    def feed(self, piece: bytes) -> Iterator[dict[str, Any] | errors.RestError]:
        try:
            self._text += self._decode.decode(piece)
        except UnicodeDecodeError as error:
            yield self._failure(f"Error processing message: {error}")
            return
        while not self.failed:
            begins = BLANK.match(self._text).end()  # type: ignore[union-attr]
            if begins:
                self._text = self._text[begins:]
                self._at = max(0, self._at - begins)
            if not self._text:
                return
            found = self._next()
            if found is None:
                return
            yield found

    def _next(self) -> dict[str, Any] | errors.RestError | None:
        if self._text[0] != "{":
            return self._failure(f"Error processing JSON: an object is expected, not {self._text[:20]!r}")
        if not self._at:
            try:
                found, end = DECODER.raw_decode(self._text)
            except (ValueError, RecursionError):
                pass
            else:
                return self._taken(found, end)
        whole_until = self._end()
        if whole_until is None:
            if len(self._text) > self._largest:
                return self._failure(f"Error processing message: the record is larger than {self._largest} bytes")
            return None
        try:
            found, end = DECODER.raw_decode(self._text[:whole_until])
        except (ValueError, RecursionError) as error:
            return self._failure(f"Error processing JSON: {error}")
        return self._taken(found, end)

    def _taken(self, found: Any, end: int) -> dict[str, Any] | errors.RestError:
        if end > self._largest:
            return self._failure(f"Error processing message: the record is larger than {self._largest} bytes")
        if is_too_deep(found):
            return self._failure(f"Error processing message: the record is nested deeper than {DEEPEST} levels")
        self._text = self._text[end:]
        self._at, self._depth, self._quoted = 0, 0, False
        result: dict[str, Any] = found
        return result

    def _end(self) -> int | None:
        """Where the object that has begun ends; goes on from where it stopped."""
        at = self._at
        while (mark := MARK.search(self._text, at)) is not None:
            character = mark.group()
            at = mark.end()
            if character == "\\":
                if at == len(self._text):
                    at -= 1
                    break
                at += 1
            elif character == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if character in "{[" else -1
                if self._depth <= 0:
                    self._at = at
                    return at
        else:
            at = len(self._text)
        self._at = at
        return None

    def finish(self) -> errors.RestError | None:
        """What is wrong if the stream ends here."""
        if self.failed or not self._text.strip():
            return None
        return self._failure("Error processing JSON: the stream ended within an object")

    def _failure(self, message: str) -> errors.RestError:
        self.failed = True
        return errors.bad_request(f"Bad Request: {message}")
