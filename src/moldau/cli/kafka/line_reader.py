"""Lines to records, as Kafka's LineMessageReader reads them: `headers<delimiter>key<separator>value`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from moldau.cli.kafka.options import ToolError

LINE_ENDS: Final = b"\r\n"


@dataclass(frozen=True, slots=True)
class Line:
    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, str | bytes | None]] | None = None


class LineReader:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parse_key = truth(properties.get("parse.key", ""))
        self._parse_headers = truth(properties.get("parse.headers", ""))
        self._ignore_error = truth(properties.get("ignore.error", ""))
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._headers_key_separator = properties.get("headers.key.separator", ":")
        self._null_marker = properties.get("null.marker")
        self._number = 0
        self._refuse_equal(
            ("headers.delimiter", self._headers_delimiter, "headers.separator", self._headers_separator),
            ("headers.delimiter", self._headers_delimiter, "headers.key.separator", self._headers_key_separator),
            ("headers.separator", self._headers_separator, "headers.key.separator", self._headers_key_separator),
            ("null.marker", self._null_marker, "key.separator", self._key_separator),
            ("null.marker", self._null_marker, "headers.separator", self._headers_separator),
            ("null.marker", self._null_marker, "headers.delimiter", self._headers_delimiter),
            ("null.marker", self._null_marker, "headers.key.separator", self._headers_key_separator),
        )

    @staticmethod
    def _refuse_equal(*pairs: tuple[str, str | None, str, str]) -> None:
        for first, value, second, other in pairs:
            if value == other:
                raise ToolError(f"{first} and {second} may not be equal")

    def lines(self, source: BinaryIO, prompt: bool = False) -> Iterator[Line]:
        while True:
            if prompt:
                print(">", end="", flush=True)
            raw = source.readline()
            if not raw:
                return
            self._number += 1
            # Bytes that are no UTF-8 pass unchanged.
            yield self.parse(raw.rstrip(LINE_ENDS).decode("utf-8", "surrogateescape"))

    def parse(self, line: str) -> Line:
        rest = line
        headers = key = None
        if self._parse_headers:
            headers, rest = self._split(line, rest, self._headers_delimiter, "headers delimiter")
        if self._parse_key:
            key, rest = self._split(line, rest, self._key_separator, "key separator")
        return Line(
            value=self._bytes(rest),
            key=None if key is None else self._bytes(key),
            headers=None if headers is None or headers == self._null_marker else self._headers(headers),
        )

    def _split(self, line: str, rest: str, separator: str, name: str) -> tuple[str | None, str]:
        found, middle, after = rest.partition(separator)
        if middle:
            return found, after
        if self._ignore_error:
            return None, rest
        raise ToolError(f"No {name} found on line number {self._number}: '{line}'")

    def _headers(self, text: str) -> list[tuple[str, str | bytes | None]]:
        return [self._header(pair) for pair in re.split(self._headers_separator, text)]

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        key, middle, value = pair.partition(self._headers_key_separator)
        if not middle:
            if self._ignore_error:
                return pair, None
            raise ToolError(f"No header key separator found in pair '{pair}' on line number {self._number}")
        if key == self._null_marker:
            raise ToolError(
                f"Header keys should not be equal to the null marker '{self._null_marker}' as they can't be null"
            )
        return key, self._bytes(value)

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self._null_marker else text.encode("utf-8", "surrogateescape")


def truth(text: str) -> bool:
    return text.strip().lower() == "true"
