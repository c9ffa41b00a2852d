"""What all kinds of schemas share: names, references, differences, and the bounds of what is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)
"""In the order in which Confluent's registry lists them."""

LARGEST_TEXT: Final = 1_000_000
DEEPEST: Final = 100
MOST_REFERENCES: Final = 1000
READER: Final = "%reader%"
WRITER: Final = "%writer%"


class SchemaError(ValueError):
    """The text is no schema of its kind, or beyond the bounds."""


@dataclass(frozen=True, slots=True)
class Reference:
    """`name` is how the schema calls it: a full name in Avro, the $ref in JSON Schema, the import in Protobuf."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Difference:
    """Why data of the writer's schema cannot be read with the reader's; the text has marks for the two schemas."""

    type: str
    path: str
    text: str
    info: str | None = None

    def told(self, reader: str, writer: str) -> str:
        text = self.text.replace(READER, reader).replace(WRITER, writer)
        more = "" if self.info is None else f", additionalInfo:'{self.info}'"
        return f"{{errorType:'{self.type}', description:'{text}'{more}}}"


class Parsed(Protocol):
    """A schema that was read."""

    @property
    def canonical(self) -> str:
        """The text that is stored: equal for texts that differ in white space alone."""
        ...

    @property
    def normalized(self) -> str:
        """Equal for schemas that mean the same."""
        ...

    def formatted(self, form: str) -> str:
        """In one of the forms that clients ask for: resolved, serialized, ignore_extensions; unknown ones mean none."""
        ...


def check_size(text: str) -> None:
    if len(text) > LARGEST_TEXT:
        raise SchemaError(f"the schema has {len(text)} characters; {LARGEST_TEXT} are allowed")


def check_unicode(text: str) -> None:
    """Half of a pair of surrogates can be said in JSON, and neither stored nor sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"\\u{ord(text[error.start]):x} is half of a pair of surrogates, no character") from None


def read_json(text: str) -> Any:
    check_size(text)
    try:
        found = json.loads(text)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except ValueError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None
    check_depth(found)
    return found


def check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in parts(each)]
        if not level:
            return
    raise SchemaError(f"the schema is nested deeper than {DEEPEST} levels")


def parts(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def compact(value: Any, *, sort: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def guid_of(
    text: str,
    references: Sequence[Reference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> str:
    """The identity of a schema wherever it is registered, computed as Confluent's registry does."""
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for each in references:
        digest.update(each.name.encode() + each.subject.encode() + (each.version & 0xFFFFFFFF).to_bytes(4, "big"))
    if metadata is not None:
        digest.update(b"\1" + metadata_bytes(metadata))
    if rule_set is not None:
        digest.update(b"\1" + b"".join(rule_bytes(rule) for kind in RULES for rule in rule_set.get(kind) or ()))
        digest.update(str(rule_set.get("enableAt") or "").encode())
    found = digest.hexdigest()
    return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"


RULES: Final = ("migrationRules", "domainRules", "encodingRules")


def metadata_bytes(metadata: Mapping[str, Any]) -> bytes:
    pieces: list[str] = []
    for key, values in sorted((metadata.get("tags") or {}).items()):
        pieces += [key, *sorted(map(str, values))]
    for key, value in sorted((metadata.get("properties") or {}).items()):
        pieces += [key, str(value)]
    pieces += sorted(map(str, metadata.get("sensitive") or ()))
    return "".join(pieces).encode()


def rule_bytes(rule: Mapping[str, Any]) -> bytes:
    pieces = [str(rule.get(key) or "") for key in ("name", "doc", "kind", "mode", "type")]
    pieces += sorted(map(str, rule.get("tags") or ()))
    for key, value in sorted((rule.get("params") or {}).items()):
        pieces += [key, str(value)]
    pieces += [str(rule.get(key) or "") for key in ("expr", "onSuccess", "onFailure")]
    return "".join(pieces).encode() + (b"\1" if rule.get("disabled") else b"")
