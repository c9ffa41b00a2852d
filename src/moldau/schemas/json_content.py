"""Objects and arrays of JSON Schema: an *open* content model takes what is not named, a *closed* one does not, a partly
open one takes what its pattern or its schema of additional members allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.schemas.json_pieces import EMPTY, FALSE, Piece

if TYPE_CHECKING:
    from moldau.schemas.json_compatibility import Walk


def compare_objects(walk: Walk, original: Piece, update: Piece) -> None:
    compare_required(walk, original, update)
    with walk.at("properties"):
        before, after = original.get("properties") or {}, update.get("properties") or {}
        for name in [*before, *(name for name in after if name not in before)]:
            with walk.at(name):
                compare_property(walk, original, update, name)
    compare_dependencies(walk, original, update)
    compare_additional(walk, original, update, "additionalProperties", "ADDITIONAL_PROPERTIES")
    compare_unevaluated(walk, original, update, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")


def compare_required(walk: Walk, original: Piece, update: Piece) -> None:
    before, after = original.get("properties") or {}, update.get("properties") or {}
    was, now = original.get("required") or [], update.get("required") or []
    with walk.at("required"):
        for name in before:
            if name in after and (name in was) != (name in now):
                added = "WITH_DEFAULT_ADDED" if has_default(after[name]) else "ADDED"
                walk.add(f"REQUIRED_ATTRIBUTE_{'REMOVED' if name in was else added}", name)


def compare_property(walk: Walk, original: Piece, update: Piece, name: str) -> None:
    before, after = (original.get("properties") or {}), (update.get("properties") or {})
    if name in before and name in after:
        walk.compare(original.inner(before[name]), update.inner(after[name]))
    elif name in before:
        removed(walk, original.inner(before[name]), update, "PROPERTY", name)
    else:
        added_property(walk, original, update, name, after[name])


def removed(walk: Walk, gone: Piece, update: Piece, what: str, name: str | None) -> None:
    partial = partly_open(update, name)
    if is_open(update, name is not None):
        walk.add(f"{what}_REMOVED_FROM_OPEN_CONTENT_MODEL")
    elif partial is not None:
        good, found = walk.tried(gone, partial)
        walk.found += found
        covered = "IS_COVERED" if good else "NOT_COVERED"
        walk.add(f"{what}_REMOVED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL")
    elif gone.kind == FALSE:
        walk.add(f"{what}_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL")
    else:
        walk.add(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL")


def added_property(walk: Walk, original: Piece, update: Piece, name: str, content: Any) -> None:
    fresh = update.inner(content)
    required = name in (update.get("required") or [])
    how = (
        ("REQUIRED_PROPERTY_WITH_DEFAULT" if has_default(content) else "REQUIRED_PROPERTY")
        if required
        else "OPTIONAL_PROPERTY"
    )
    if is_open(original, True):
        kind = "PROPERTY_WITH_EMPTY_SCHEMA" if fresh.kind == EMPTY else how
        walk.add(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL")
        return
    partial = partly_open(original, name)
    if partial is not None:
        good, found = walk.tried(partial, fresh)
        walk.found += found
        walk.add(f"PROPERTY_ADDED_{'IS_COVERED' if good else 'NOT_COVERED'}_BY_PARTIALLY_OPEN_CONTENT_MODEL")
    walk.add(f"{how}_ADDED_TO_UNOPEN_CONTENT_MODEL")


def compare_dependencies(walk: Walk, original: Piece, update: Piece) -> None:
    before, after = dependencies(original), dependencies(update)
    with walk.at("dependencies"):
        for name in [*before, *(name for name in after if name not in before)]:
            with walk.at(name):
                compare_dependency(walk, original, update, before.get(name), after.get(name))


def compare_dependency(walk: Walk, original: Piece, update: Piece, was: Any, now: Any) -> None:
    if isinstance(was, list) and isinstance(now, list):
        gone, fresh = set(was) - set(now), set(now) - set(was)
        if gone or fresh:
            walk.add(f"DEPENDENCY_ARRAY_{'CHANGED' if gone and fresh else 'NARROWED' if gone else 'EXTENDED'}")
        return
    if was is not None and now is not None and not isinstance(was, list) and not isinstance(now, list):
        walk.compare(original.inner(was), update.inner(now))
        return
    if was is not None:
        walk.add(f"DEPENDENCY_{'ARRAY' if isinstance(was, list) else 'SCHEMA'}_REMOVED")
    if now is not None:
        walk.add(f"DEPENDENCY_{'ARRAY' if isinstance(now, list) else 'SCHEMA'}_ADDED")


def dependencies(piece: Piece) -> dict[str, Any]:
    return {
        **(piece.get("dependencies") or {}),
        **(piece.get("dependentRequired") or {}),
        **(piece.get("dependentSchemas") or {}),
    }


def compare_additional(walk: Walk, original: Piece, update: Piece, keyword: str, name: str) -> None:
    before, after = original.get(keyword), update.get(keyword)
    with walk.at(keyword):
        if (before is False) != (after is False):
            walk.add(f"{name}_{'ADDED' if before is False else 'REMOVED'}")
        elif not isinstance(before, dict) and isinstance(after, dict):
            walk.add(f"{name}_NARROWED")
        elif isinstance(before, dict) and not isinstance(after, dict):
            walk.add(f"{name}_EXTENDED")
        elif isinstance(before, dict):
            walk.compare(original.inner(before), update.inner(after))


def compare_unevaluated(walk: Walk, original: Piece, update: Piece, keyword: str, name: str) -> None:
    before, after = original.get(keyword), update.get(keyword)
    if before == after:
        return
    was = EMPTY if before is None else original.inner(before).kind
    now = EMPTY if after is None else update.inner(after).kind
    with walk.at(keyword):
        if was == now == EMPTY:
            return
        if (was == FALSE) != (now == FALSE):
            walk.add(f"{name}_{'ADDED' if was == FALSE else 'REMOVED'}")
        elif was == EMPTY or now == EMPTY:
            walk.add(f"{name}_{'NARROWED' if was == EMPTY else 'EXTENDED'}")
        else:
            walk.compare(original.inner(before), update.inner(after))


def compare_arrays(walk: Walk, original: Piece, update: Piece) -> None:
    before, after = every_item(original), every_item(update)
    with walk.at("items"):
        if before is not None and after is not None:
            walk.compare(original.inner(before), update.inner(after))
        elif before is not None or after is not None:
            walk.add("SCHEMA_ADDED" if before is None else "SCHEMA_REMOVED")
    compare_tuples(walk, original, update)
    compare_additional(walk, original, update, "additionalItems", "ADDITIONAL_ITEMS")
    compare_unevaluated(walk, original, update, "unevaluatedItems", "UNEVALUATED_ITEMS")
    was, now = bool(original.get("uniqueItems")), bool(update.get("uniqueItems"))
    if was != now:
        walk.add("UNIQUE_ITEMS_REMOVED" if was else "UNIQUE_ITEMS_ADDED", "uniqueItems")


def compare_tuples(walk: Walk, original: Piece, update: Piece) -> None:
    before, after = first_items(original), first_items(update)
    for i in range(max(len(before), len(after))):
        with walk.at("items", str(i)):
            if i < len(before) and i < len(after):
                walk.compare(original.inner(before[i]), update.inner(after[i]))
            elif i < len(before):
                removed(walk, original.inner(before[i]), update, "ITEM", None)
            else:
                added_item(walk, original, update.inner(after[i]))


def added_item(walk: Walk, original: Piece, fresh: Piece) -> None:
    partial = partly_open(original, None)
    if is_open(original, False):
        walk.add(f"{'ITEM_WITH_EMPTY_SCHEMA' if fresh.kind == EMPTY else 'ITEM'}_ADDED_TO_OPEN_CONTENT_MODEL")
    elif partial is not None:
        good, found = walk.tried(partial, fresh)
        walk.found += found
        walk.add(f"ITEM_ADDED_{'IS_COVERED' if good else 'NOT_COVERED'}_BY_PARTIALLY_OPEN_CONTENT_MODEL")
    else:
        walk.add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL")


def every_item(piece: Piece) -> Any:
    """The schema of all items; beside prefixItems it is that of the further ones."""
    items = piece.get("items")
    return items if isinstance(items, dict | bool) and not piece.get("prefixItems") else None


def first_items(piece: Piece) -> list[Any]:
    items = piece.get("items")
    return piece.get("prefixItems") or (items if isinstance(items, list) else [])


def further(piece: Piece, of_object: bool) -> tuple[Any, Any]:
    """What is said of further members, and of those that nothing else speaks of."""
    if of_object:
        return piece.get("additionalProperties"), piece.get("unevaluatedProperties")
    more = piece.get("items") if piece.get("prefixItems") else piece.get("additionalItems")
    return more, piece.get("unevaluatedItems")


def is_open(piece: Piece, of_object: bool) -> bool:
    more, unevaluated = further(piece, of_object)
    if more is False or isinstance(more, dict) or (of_object and piece.get("patternProperties")):
        return False
    return unevaluated is None or unevaluated is True or unevaluated == {}


def partly_open(piece: Piece, name: str | None) -> Piece | None:
    more, unevaluated = further(piece, name is not None)
    if name is not None:
        for pattern, content in (piece.get("patternProperties") or {}).items():
            if matches(pattern, name):
                return piece.inner(content)
    if isinstance(more, dict):
        return piece.inner(more)
    if more is not False and isinstance(unevaluated, dict) and unevaluated:
        return piece.inner(unevaluated)
    return None


def matches(pattern: str, name: str) -> bool:
    """In linear time; what only a backtracking engine knows counts as no match."""
    import re2

    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return False


def has_default(content: Any) -> bool:
    return isinstance(content, dict) and "default" in content
