"""Subjects in contexts: `:.context:subject`; the default context is `.`, and its subjects are written without it.

A context alone, `:.context:`, stands for its settings; `:.__GLOBAL:` for those of all; `:*:` for every context.
"""

from __future__ import annotations

from typing import Final

from moldau.registry.errors import RegistryError

DEFAULT: Final = "."
EVERY: Final = ":*:"
GLOBAL_CONTEXT: Final = ".__GLOBAL"
LONGEST: Final = 1024


def split(subject: str) -> tuple[str, str]:
    """Context and bare name."""
    if subject.startswith(":."):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return context, name
    return DEFAULT, subject


def context_of(subject: str) -> str:
    return split(subject)[0]


def qualified(subject: str) -> str:
    """In its shortest form, so that one subject has one name."""
    context, name = split(subject)
    return name if context == DEFAULT and name else subject


def beside(subject: str, other: str) -> str:
    """`other` as a schema of `subject` means it: in the same context unless it says another."""
    context = context_of(subject)
    return other if context == DEFAULT or other.startswith(":.") else f":{context}:{other}"


def settings_subject(context: str) -> str:
    return f":{context}:"


def check(subject: str) -> str:
    controls = any(ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in subject)
    if not subject.strip() or controls or len(subject) > LONGEST or split(subject)[0] == GLOBAL_CONTEXT:
        raise RegistryError(42208, f"The specified subject '{subject[:200]}' is not a valid.")
    return qualified(subject)


def rewrite(segments: tuple[str, ...], query: dict[str, str]) -> tuple[str, ...]:
    """`/contexts/{context}/…` as the same request about subjects of that context."""
    if len(segments) < 3 or segments[0] != "contexts" or not segments[1]:
        return segments
    prefix = prefix_of(segments[1])
    rest = list(segments[2:])
    if not prefix:
        return tuple(rest)
    if "subjects" in rest[:2] and len(rest) > rest.index("subjects") + 1:
        place = rest.index("subjects") + 1
        rest[place] = within(prefix, rest[place])
    elif rest[0] in ("config", "mode"):
        rest = [rest[0], within(prefix, rest[1]) if len(rest) > 1 else prefix]
    else:
        for name in ("subject", "subjectPrefix"):
            query[name] = within(prefix, query.get(name, ""))
    return tuple(rest)


def prefix_of(given: str) -> str:
    """What stands before the subjects of a context, however it is written; nothing for the default one."""
    context = given.strip(":")
    context = context if context.startswith(".") else f".{context}"
    return "" if context == DEFAULT else f":{context}:"


def within(prefix: str, subject: str) -> str:
    return subject if subject.startswith(":.") else f"{prefix}{subject}"
