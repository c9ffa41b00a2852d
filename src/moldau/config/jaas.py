"""Java's login configuration, as Kafka's users write it: one module in a setting, or sections in a file.

org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="…" user_alice="…";

KafkaServer { <modules> };      listener.KafkaServer { … };
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_TOKEN = re.compile(
    r"""
    \s+ | //[^\n]* | /\*.*?\*/ | \#[^\n]*
    | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<mark>[{};=])
    | (?P<word>[^\s{};="']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class JaasError(ValueError):
    """A login configuration that cannot be read. Its text is never shown: it holds passwords."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: Mapping[str, str] = field(repr=False, default_factory=lambda: MappingProxyType({}))

    @property
    def users(self) -> dict[str, str]:
        """The passwords that PlainLoginModule gives to the broker's clients."""
        return {name[5:]: value for name, value in self.options.items() if name.startswith("user_")}


def parse_module(text: str) -> LoginModule:
    """The one module of a `sasl.jaas.config`. Raises JaasError."""
    modules = list(_modules(_Tokens(text), None))
    if len(modules) != 1:
        raise JaasError(f"expected one login module, found {len(modules)}")
    return modules[0]


def parse_sections(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """A file of sections by their names. Raises JaasError."""
    tokens = _Tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while (name := tokens.next()) is not None:
        tokens.expect("{")
        if name in sections:
            raise JaasError(f"section {name} stands there twice")
        sections[name] = tuple(_modules(tokens, "}"))
        if tokens.peek() == ";":
            tokens.next()
    return sections


def _modules(tokens: _Tokens, end: str | None) -> Iterator[LoginModule]:
    while (name := tokens.next()) != end:
        if name is None:
            raise JaasError(f"it ends before {end!r}")
        flag = tokens.next()
        if flag is None or flag.lower() not in _FLAGS:
            raise JaasError(f"expected one of {', '.join(_FLAGS)} behind the login module {name}")
        options = {}
        while (key := tokens.next()) != ";":
            if key is None:
                raise JaasError(f"the login module {name} has no ';' at its end")
            tokens.expect("=")
            value = tokens.next()
            if value is None or value == ";":
                raise JaasError(f"option {key} of {name} has no value")
            options[key] = value
        yield LoginModule(name, MappingProxyType(options))


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise JaasError(f"a quote at character {position} has no end")
            position = match.end()
            if match["quoted"] is not None:
                self._tokens.append(_ESCAPED.sub(r"\1", match["quoted"][1:-1]))
            elif match["mark"] or match["word"]:
                self._tokens.append(match["mark"] or match["word"])
        self._next = 0

    def peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def next(self) -> str | None:
        token = self.peek()
        self._next += 1
        return token

    def expect(self, mark: str) -> None:
        if self.next() != mark:
            raise JaasError(f"expected {mark!r}")
