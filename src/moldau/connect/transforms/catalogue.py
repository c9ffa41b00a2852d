"""Transforms and predicates by the names that configurations call them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from moldau.connect.plugins import PluginMissing, loaded
from moldau.connect.transforms.base import Predicate, Transform
from moldau.connect.transforms.casts import Cast, TimestampConverter
from moldau.connect.transforms.changes import EventRouter, ExtractNewRecordState
from moldau.connect.transforms.fields import (
    ExtractField,
    Flatten,
    HoistField,
    InsertField,
    MaskField,
    ReplaceField,
    ValueToKey,
)
from moldau.connect.transforms.headers import (
    DropHeaders,
    HasHeaderKey,
    HeaderFrom,
    InsertHeader,
    RecordIsTombstone,
    TopicNameMatches,
)
from moldau.connect.transforms.routing import Filter, RegexRouter, SetSchemaMetadata, TimestampRouter

JAVA: Final = "org.apache.kafka.connect.transforms."
DEBEZIUM: Final = "io.debezium.transforms."
SIDED: Final[Mapping[str, type[Transform]]] = {
    "Cast": Cast,
    "ExtractField": ExtractField,
    "Flatten": Flatten,
    "HeaderFrom": HeaderFrom,
    "HoistField": HoistField,
    "InsertField": InsertField,
    "MaskField": MaskField,
    "ReplaceField": ReplaceField,
    "SetSchemaMetadata": SetSchemaMetadata,
    "TimestampConverter": TimestampConverter,
}
WHOLE: Final[Mapping[str, type[Transform]]] = {
    "DropHeaders": DropHeaders,
    "Filter": Filter,
    "InsertHeader": InsertHeader,
    "RegexRouter": RegexRouter,
    "TimestampRouter": TimestampRouter,
    "ValueToKey": ValueToKey,
}
TRANSFORMS: Final[Mapping[str, tuple[type[Transform], str]]] = {
    **{f"{JAVA}{name}$Key": (kind, "key") for name, kind in SIDED.items()},
    **{f"{JAVA}{name}$Value": (kind, "value") for name, kind in SIDED.items()},
    **{f"{JAVA}{name}": (kind, "value") for name, kind in WHOLE.items()},
    f"{DEBEZIUM}ExtractNewRecordState": (ExtractNewRecordState, "value"),
    f"{DEBEZIUM}outbox.EventRouter": (EventRouter, "value"),
}
"""Class and side, by Java's name."""
PREDICATES: Final[Mapping[str, type[Predicate]]] = {
    f"{JAVA}predicates.{kind.__name__}": kind for kind in (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
}


def short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def find_transform(name: str) -> tuple[type[Transform], str]:
    for java, found in TRANSFORMS.items():
        if name in (java, short(java)):
            return found
    place, _, side = name.partition("$")
    other = other_class(place)
    if isinstance(other, type) and issubclass(other, Transform):
        return other, "key" if side == "Key" else "value"
    raise missing(name, list(TRANSFORMS))


def find_predicate(name: str) -> type[Predicate]:
    for java, found in PREDICATES.items():
        if name in (java, short(java)):
            return found
    other = other_class(name)
    if isinstance(other, type) and issubclass(other, Predicate):
        return other
    raise missing(name, list(PREDICATES))


def other_class(place: str) -> object:
    try:
        return loaded(place)
    except (ImportError, AttributeError):
        return None


def missing(name: str, known: list[str]) -> PluginMissing:
    close = difflib.get_close_matches(short(name), list(map(short, known)), n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    return PluginMissing(f"Class {name} could not be found{hint}")
