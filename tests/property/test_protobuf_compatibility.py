"""What we call compatible is: messages of the old Protobuf schema, encoded with protobuf's own library, are read with
the new one, and fields that both have hold the same. And the other way round: fields that are new, or gone, or of a
type with the same form on the wire are compatible.

Left out, since the rule is Confluent's there and not sound: a number of proto3 that becomes repeated, or was."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.schemas.protobuf import parse_protobuf
from moldau.schemas.protobuf_compatibility import protobuf_differences

Kind = FieldDescriptorProto.Type
NUMBERS = ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM")
OTHERS = ("SINT32", "SINT64", "FIXED32", "SFIXED32", "FIXED64", "SFIXED64", "FLOAT", "DOUBLE")
WORDS = ("STRING", "BYTES")
KINDS = (*NUMBERS, *OTHERS, *WORDS, "MESSAGE")
ALIKE = (
    (*NUMBERS, *NUMBERS, "SINT32", "SINT64"),
    ("FIXED32", "SFIXED32", "FLOAT"),
    ("FIXED64", "SFIXED64", "DOUBLE"),
    (*WORDS, "MESSAGE"),
)
"""They have a form on the wire in common."""
ENOUGH = 0.1


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    repeated: bool = False
    oneof: str = ""


Fields = dict[int, Field]


def fields(most: int) -> st.SearchStrategy[Fields]:
    one = st.builds(
        Field,
        st.sampled_from("xyz"),
        st.sampled_from(KINDS),
        st.booleans(),
        st.sampled_from(["", "", "", "choice", "other"]),
    )
    return st.dictionaries(st.integers(1, 6), one, max_size=most).map(legal)


def legal(found: Fields) -> Fields:
    return {number: replace(each, repeated=each.repeated and not each.oneof) for number, each in found.items()}


def flat(found: Fields) -> Fields:
    return {number: replace(each, kind="STRING") if each.kind == "MESSAGE" else each for number, each in found.items()}


@st.composite
def changed(draw: st.DrawFn, old: Fields) -> Fields:
    new = dict(old)
    for _ in range(draw(st.integers(1, 2))):
        number = draw(st.sampled_from(sorted(new))) if new else 1
        field = new.get(number, Field("x", "INT32"))
        alike = next((group for group in ALIKE if field.kind in group), (field.kind,))
        match draw(st.sampled_from(["kind", "alike", "alike", "oneof", "name", "gone", "more", "repeated"])):
            case "kind":
                new[number] = replace(field, kind=draw(st.sampled_from(KINDS)))
            case "alike":
                new[number] = replace(field, kind=draw(st.sampled_from(alike)))
            case "oneof":
                new[number] = replace(field, oneof=draw(st.sampled_from(["", "choice", "other"])))
            case "name":
                new[number] = replace(field, name=draw(st.sampled_from("uvw")))
            case "gone":
                new.pop(number, None)
            case "more":
                new = {**draw(fields(2)), **new}
            case "repeated" if field.kind in (*WORDS, "MESSAGE"):
                new[number] = replace(field, repeated=not field.repeated)
    return legal(new)


def file_of(outer: Fields, inner: Fields) -> FileDescriptorProto:
    file = FileDescriptorProto(name="default.proto", syntax="proto3", package="p")
    values = file.enum_type.add(name="E").value
    values.add(name="A", number=0)
    values.add(name="B", number=1)
    for name, found in (("Outer", outer), ("Inner", inner)):
        fill(file.message_type.add(name=name), found)
    return file


def fill(message: DescriptorProto, found: Fields) -> None:
    oneofs = sorted({each.oneof for each in found.values()} - {""})
    for name in oneofs:
        message.oneof_decl.add(name=name)
    for number, each in sorted(found.items(), key=lambda item: (item[1].oneof, item[0])):
        made = message.field.add(name=f"{each.name}{number}", number=number)
        made.type = Kind.Value(f"TYPE_{each.kind}")
        made.label = FieldDescriptorProto.LABEL_REPEATED if each.repeated else FieldDescriptorProto.LABEL_OPTIONAL
        if each.kind in ("ENUM", "MESSAGE"):
            made.type_name = ".p.E" if each.kind == "ENUM" else ".p.Inner"
        if each.oneof:
            made.oneof_index = oneofs.index(each.oneof)


def class_in(file: FileDescriptorProto) -> Any:
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("p.Outer"))


@st.composite
def contents(draw: st.DrawFn, outer: Fields, inner: Fields) -> dict[int, Any]:
    """By number, what all types of a group can hold."""
    found: dict[int, Any] = {}
    taken: set[str] = set()
    for number, each in outer.items():
        if each.oneof in taken or not draw(st.integers(0, 3)):
            continue
        taken |= {each.oneof} - {""}
        if each.kind == "MESSAGE":
            found[number] = draw(contents(inner, {}))
        else:
            found[number] = draw(values(each.kind))
    return found


def values(kind: str) -> st.SearchStrategy[Any]:
    if kind in WORDS:
        return st.text(max_size=4)
    if kind in NUMBERS:
        return st.integers(0, 1)
    return st.integers(0, 1 << 20) if "FIXED" in kind else st.integers(-3, 3)


def put(message: Any, content: dict[int, Any]) -> Any:
    for number, value in content.items():
        field = message.DESCRIPTOR.fields_by_number[number]
        if field.message_type is not None:
            target = getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)
            target.SetInParent()
            put(target, value)
            continue
        given = value.encode() if field.type == field.TYPE_BYTES else value
        given = bool(given) if field.type == field.TYPE_BOOL else given
        if field.is_repeated:
            getattr(message, field.name).append(given)
        else:
            setattr(message, field.name, given)
    return message


def held(message: Any, number: int) -> Any:
    """What a field holds, whatever its type: an only element is like the value itself, and a default like nothing."""
    field = message.DESCRIPTOR.fields_by_number.get(number)
    if field is None:
        return None
    value = getattr(message, field.name)
    if field.is_repeated:
        value = value[0] if len(value) else None
    if field.message_type is not None:
        found = {} if value is None else {each: held(value, each) for each in value.DESCRIPTOR.fields_by_number}
        return {number: each for number, each in found.items() if each} or None
    value = value.encode() if isinstance(value, str) else value
    return (int(value) if isinstance(value, bool) else value) or None


@st.composite
def cases(draw: st.DrawFn) -> Any:
    outer, inner = draw(fields(4)), flat(draw(fields(3)))
    after_outer, after_inner = draw(changed(outer)), flat(draw(changed(inner))) if draw(st.booleans()) else inner
    return (outer, inner), (after_outer, after_inner), draw(st.lists(contents(outer, inner), min_size=2, max_size=4))


def compatible(old: FileDescriptorProto, new: FileDescriptorProto) -> bool:
    reader, writer = (parse_protobuf(base64.b64encode(each.SerializeToString()).decode(), {}) for each in (new, old))
    return not protobuf_differences(reader, writer)


def numbers_change_labels(old: Fields, new: Fields) -> bool:
    return any(
        new[number].repeated != each.repeated and each.kind not in (*WORDS, "MESSAGE")
        for number, each in old.items()
        if number in new
    )


def judge(examples: int) -> None:
    seen: list[bool] = []

    @settings(max_examples=examples, deadline=None)
    @given(cases())
    def check(case: Any) -> None:
        before, after, found = case
        if any(numbers_change_labels(*pair) for pair in zip(before, after, strict=True)):
            return
        old, new = file_of(*before), file_of(*after)
        ours = compatible(old, new)
        seen.append(ours and old != new)
        if not ours:
            return
        writer, reader = class_in(old), class_in(new)
        for content in found:
            written = put(writer(), content)
            read = reader.FromString(written.SerializeToString())
            for number in before[0].keys() & after[0].keys():
                expected, got = held(written, number), held(read, number)
                both = before[1].keys() & after[1].keys()
                if isinstance(expected, dict):
                    expected = {each: value for each, value in expected.items() if each in both} or None
                assert got == expected, (number, content)

    check()
    assert sum(seen) >= ENOUGH * len(seen)


def test_messages_of_the_old_schema_are_read_with_a_compatible_one() -> None:
    judge(200)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_messages_of_thousands_of_schemas() -> None:
    judge(5_000)


UNUSED = 7
SAME_FORM = (NUMBERS, ("SINT32", "SINT64"), WORDS, ("FIXED32", "SFIXED32"), ("FIXED64", "SFIXED64"))


@st.composite
def harmless(draw: st.DrawFn, old: Fields) -> Fields:
    """Messages of the old fields are read with these."""
    number = draw(st.sampled_from([*old, UNUSED]))
    known = old.get(number)
    if known is None:
        return {**old, number: Field("n", draw(st.sampled_from(KINDS)), draw(st.booleans()))}
    match draw(st.sampled_from(["name", "kind", "gone", "many"])):
        case "kind":
            alike = next((group for group in SAME_FORM if known.kind in group), (known.kind,))
            return {**old, number: replace(known, kind=draw(st.sampled_from(alike)))}
        case "gone" if not known.oneof:
            return {each: field for each, field in old.items() if each != number}
        case "many" if known.kind in (*WORDS, "MESSAGE") and not known.oneof:
            return {**old, number: replace(known, repeated=True)}
    return {**old, number: replace(known, name="renamed")}


def judge_harmless(examples: int) -> None:
    seen: list[bool] = []

    @settings(max_examples=examples, deadline=None)
    @given(st.tuples(fields(4), fields(3).map(flat)).flatmap(lambda old: st.tuples(st.just(old), after(*old))))
    def check(case: Any) -> None:
        old, new = (file_of(*each) for each in case)
        seen.append(old != new)
        assert compatible(old, new)

    check()
    assert sum(seen) >= ENOUGH * len(seen)


def after(outer: Fields, inner: Fields) -> st.SearchStrategy[tuple[Fields, Fields]]:
    return st.tuples(harmless(outer).flatmap(harmless), harmless(inner).map(flat))


def test_harmless_changes_are_compatible() -> None:
    judge_harmless(200)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_thousands_of_harmless_changes() -> None:
    judge_harmless(5_000)
