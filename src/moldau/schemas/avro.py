"""Avro schemas as trees: read, checked, and printed as Java's library prints them (which is what registries store).

Names that are only used, because they were defined before or in a reference, are `Named`; the definition is in `names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.schemas.avro_references import merged
from moldau.schemas.model import SchemaError, compact, read_json

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OF_RECORD: Final = frozenset({"type", "name", "namespace", "doc", "fields", "aliases"})
OF_ENUM: Final = frozenset({"type", "name", "namespace", "doc", "symbols", "aliases", "default"})
OF_FIXED: Final = frozenset({"type", "name", "namespace", "doc", "size", "aliases"})
OF_FIELD: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})
MOST_NODES: Final = 20_000


@dataclass(slots=True, eq=False)
class Node:
    kind: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: Any = None
    size: int = 0
    parts: list[Node] = field(default_factory=list)
    """Branches of a union; the one element of an array or map; the definition that a name stands for."""

    @property
    def target(self) -> Node:
        return self.parts[0] if self.kind == "named" else self

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: Node
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: tuple[str, ...]
    properties: dict[str, Any]


class AvroSchema:
    def __init__(self, root: Node, content: Any, referred: list[Any]) -> None:
        self.root = root
        self._content = content
        self._referred = referred

    @property
    def canonical(self) -> str:
        return compact(printed(self.root, None, sort=False))

    @property
    def normalized(self) -> str:
        return compact(printed(self.root, None, sort=True))

    def formatted(self, form: str) -> str:
        if form == "resolved" and self._referred:
            return parse_avro(compact(merged(self._content, self._referred)), {}, check_defaults=False).canonical
        return self.canonical


def parse_avro(text: str, referred: Mapping[str, str], *, check_defaults: bool = True) -> AvroSchema:
    """`referred`: the texts of all schemas that it refers to, directly or not, those without needs first."""
    reader = Reader(check_defaults)
    earlier = [read_json(each) for each in referred.values()]
    for each in earlier:
        reader.read_again(each)
    content = read_json(text)
    return AvroSchema(reader.read(content, "", "schema"), content, earlier)


class Reader:
    def __init__(self, check_defaults: bool) -> None:
        self.names: dict[str, Node] = {}
        self._check_defaults = check_defaults
        self._nodes = 0

    def read_again(self, content: Any) -> None:
        """A reference: what is defined in it once more means the same."""
        checks, self._check_defaults = self._check_defaults, False
        self.read(content, "", "reference", again=True)
        self._check_defaults = checks

    def read(self, content: Any, space: str, at: str, *, again: bool = False) -> Node:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise SchemaError(f"the schema has more than {MOST_NODES} types")
        if isinstance(content, str):
            return self._used(content, space, at)
        if isinstance(content, list):
            return self._union(content, space, at, again)
        if not isinstance(content, dict) or "type" not in content:
            raise SchemaError(f"{at}: no type: {shortened(content)}")
        kind = content["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(content, kind, space, at, again)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in content:
                raise SchemaError(f"{at}: {kind} without {part}")
            inner = self.read(content[part], space, f"{at}.{part}", again=again)
            return Node(kind, parts=[inner], properties=others(content, {"type", part}))
        inner = self.read(kind, space, at, again=again)
        if inner.kind in PRIMITIVES:
            inner.properties |= others(content, {"type"})
        return inner

    def _used(self, name: str, space: str, at: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        for candidate in [name] if "." in name or not space else [f"{space}.{name}", name]:
            if candidate in self.names:
                return Node("named", candidate, parts=[self.names[candidate]])
        raise SchemaError(f'{at}: Undefined name: "{name}"')

    def _union(self, content: list[Any], space: str, at: str, again: bool) -> Node:
        branches = [self.read(each, space, f"{at}[{i}]", again=again) for i, each in enumerate(content)]
        seen = set()
        for branch in branches:
            target = branch.target
            if target.kind == "union":
                raise SchemaError(f"{at}: Nested union: {shortened(content)}")
            key = target.name or target.kind
            if key in seen:
                raise SchemaError(f"{at}: Duplicate in union: {key}")
            seen.add(key)
        return Node("union", parts=branches)

    def _defined(self, content: dict[str, Any], kind: str, space: str, at: str, again: bool) -> Node:
        name = full_name(content, space, at)
        if name in self.names and again:
            return Node("named", name, parts=[self.names[name]])
        if name in self.names:
            raise SchemaError(f"{at}: Can't redefine: {name}")
        inside = name.rpartition(".")[0]
        aliases = tuple(
            each if "." in each or not inside else f"{inside}.{each}" for each in texts(content.get("aliases", []), at)
        )
        node = Node(kind, name, text_or_none(content.get("doc"), at), aliases)
        self.names[name] = node
        if kind == "enum":
            self._enum(node, content, at)
        elif kind == "fixed":
            size = content.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SchemaError(f"{at}: Invalid or no size: {shortened(content)}")
            node.size = size
            node.properties = others(content, OF_FIXED)
        else:
            self._record(node, content, inside, at, again)
        return node

    def _enum(self, node: Node, content: dict[str, Any], at: str) -> None:
        symbols = tuple(texts(content.get("symbols"), f"{at}.symbols"))
        for symbol in symbols:
            check_name(symbol, f"{at}: symbol")
        if len(set(symbols)) != len(symbols):
            raise SchemaError(f"{at}: Duplicate enum symbol in {node.name}")
        node.symbols = symbols
        node.default = content.get("default")
        if node.default is not None and node.default not in symbols:
            raise SchemaError(f"{at}: The Enum Default: {node.default} is not in the enum symbol set: {list(symbols)}")
        node.properties = others(content, OF_ENUM)

    def _record(self, node: Node, content: dict[str, Any], inside: str, at: str, again: bool) -> None:
        fields = content.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"{at}: Record has no fields: {shortened(content)}")
        seen = set()
        for i, each in enumerate(fields):
            place = f"{at}.fields[{i}]"
            if not isinstance(each, dict) or "name" not in each or "type" not in each:
                raise SchemaError(f"{place}: a field needs a name and a type: {shortened(each)}")
            check_name(each["name"], place)
            if each["name"] in seen:
                raise SchemaError(f"{place}: Duplicate field {each['name']} in record {node.name}")
            seen.add(each["name"])
            found = read_field(each, self.read(each["type"], inside, f"{at}.{each['name']}", again=again), place)
            node.fields.append(found)
            if self._check_defaults and found.has_default and not fits(found.type, found.default):
                told = f"{compact(found.default)} not a {compact(printed(found.type, inside))}"
                raise SchemaError(f"Invalid default for field {found.name}: {told}")
        node.properties = others(content, OF_RECORD)


def read_field(content: dict[str, Any], kind: Node, at: str) -> Field:
    order = content.get("order", "ascending")
    if order not in ("ascending", "descending", "ignore"):
        raise SchemaError(f"{at}: order is {order!r}")
    return Field(
        content["name"],
        kind,
        text_or_none(content.get("doc"), at),
        "default" in content,
        content.get("default"),
        order,
        tuple(texts(content.get("aliases", []), at)),
        others(content, OF_FIELD),
    )


def full_name(content: dict[str, Any], space: str, at: str) -> str:
    name = content.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{at}: No name in schema: {shortened(content)}")
    around = content.get("namespace", space)
    if not isinstance(around, str):
        raise SchemaError(f"{at}: the namespace is no text")
    full = name if "." in name or not around else f"{around}.{name}"
    for part in full.split("."):
        check_name(part, at)
    return full


def check_name(name: Any, at: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise SchemaError(f"{at}: Illegal initial character or character in name: {shortened(name)}")


def texts(value: Any, at: str) -> Iterable[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SchemaError(f"{at}: a list of texts is expected, not {shortened(value)}")
    return value


def text_or_none(value: Any, at: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise SchemaError(f"{at}: doc is no text")
    return value


def others(content: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in set(known)}


def shortened(value: Any) -> str:
    text = compact(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


# -- defaults -------------------------------------------------------------------------------------------------------

INTEGERS: Final = {"int": 31, "long": 63}


def fits(node: Node, value: Any) -> bool:
    """Whether the value is a default of the type; of a union, of any of its branches, as Java has it since 1.12."""
    node = node.target
    match node.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole and -(1 << INTEGERS[node.kind]) <= value < 1 << INTEGERS[node.kind]
        case "float" | "double":
            return (isinstance(value, int | float) and not isinstance(value, bool)) or value in NOT_NUMBERS
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list) and all(fits(node.parts[0], each) for each in value)
        case "map":
            return isinstance(value, dict) and all(fits(node.parts[0], each) for each in value.values())
        case "union":
            return any(fits(branch, value) for branch in node.parts)
        case _:
            return isinstance(value, dict) and all(
                fits(each.type, value[each.name]) if each.name in value else each.has_default for each in node.fields
            )


NOT_NUMBERS: Final = ("NaN", "Infinity", "-Infinity", "INF", "-INF")


# -- printing -------------------------------------------------------------------------------------------------------


def printed(node: Node, space: str | None, *, sort: bool = False) -> Any:
    match node.kind:
        case "named":
            around, _, short = node.name.rpartition(".")
            return short if not around or around == space else node.name
        case "union":
            return [printed(branch, space, sort=sort) for branch in node.parts]
        case "array" | "map":
            part = "items" if node.kind == "array" else "values"
            return {"type": node.kind, part: printed(node.parts[0], space, sort=sort)} | ordered(node.properties, sort)
        case kind if kind in PRIMITIVES:
            return {"type": kind, **ordered(node.properties, sort)} if node.properties else kind
    around, _, short = node.name.rpartition(".")
    found: dict[str, Any] = {"type": node.kind, "name": short}
    if around != (space or ""):
        found["namespace"] = around
    if node.doc is not None:
        found["doc"] = node.doc
    if node.kind == "enum":
        found["symbols"] = list(node.symbols)
        if node.default is not None:
            found["default"] = node.default
    elif node.kind == "fixed":
        found["size"] = node.size
    else:
        found["fields"] = [printed_field(each, around, sort) for each in node.fields]
    found |= ordered(node.properties, sort)
    if node.aliases:
        found["aliases"] = [relative(each, around) for each in (sorted(node.aliases) if sort else node.aliases)]
    return found


def printed_field(each: Field, space: str, sort: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": each.name, "type": printed(each.type, space, sort=sort)}
    if each.doc is not None:
        found["doc"] = each.doc
    if each.has_default:
        found["default"] = each.default
    if each.order != "ascending":
        found["order"] = each.order
    if each.aliases:
        found["aliases"] = list(each.aliases)
    return found | ordered(each.properties, sort)


def ordered(properties: dict[str, Any], sort: bool) -> dict[str, Any]:
    return dict(sorted(properties.items())) if sort else properties


def relative(name: str, space: str) -> str:
    return name.removeprefix(f"{space}.") if space and name.startswith(f"{space}.") else name
