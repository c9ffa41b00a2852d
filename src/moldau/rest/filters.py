"""The filters of those who follow a topic: JMESPath, with a bound on what an expression can make of a record.

Nothing in JMESPath loops, but an expression can double what it has, again and again: `[@,@][]`. What lists and objects
multiply is therefore counted before anything runs, and texts are joined up to a length.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from jmespath import Options, compile
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature

from moldau.rest import errors

LONGEST: Final = 2000
MOST_TIMES: Final = 64
"""So many times the size of a record an expression may make of it."""
LONGEST_JOINED: Final = 1_000_000
GROWING: Final = ("join", "merge", "to_string")
"""to_string: a text within a list gets its quotes escaped, and those are escaped by the next one."""


class BoundedFunctions(Functions):  # type: ignore[misc]
    @signature({"types": ["string"]}, {"types": ["array-string"]})  # type: ignore[untyped-decorator]
    def _func_join(self, separator: str, array: list[str]) -> str | None:
        if len(separator) * len(array) + sum(map(len, array)) > LONGEST_JOINED:
            return None
        return separator.join(array)


OPTIONS: Final = Options(custom_functions=BoundedFunctions())


class Filter:
    def __init__(self, expression: str) -> None:
        if len(expression) > LONGEST:
            raise errors.bad_request(f"Bad Request: filter: {LONGEST} characters at most")
        try:
            self._compiled = compile(expression)
            times = multiplied(self._compiled.parsed)
        except (JMESPathError, RecursionError) as error:
            raise errors.bad_request(f"Bad Request: filter: {error}") from None
        if times > MOST_TIMES:
            told = f"its lists and objects make up to {times} of one record, {MOST_TIMES} are allowed"
            raise errors.bad_request(f"Bad Request: filter: {told}")

    def holds(self, record: dict[str, Any]) -> bool:
        try:
            return bool(self._compiled.search(record, OPTIONS))
        except (JMESPathError, RecursionError):  # a function that this record's types do not suit
            return False


def multiplied(node: dict[str, Any]) -> int:
    """How many times larger than what it is given the outcome can be, at most."""
    inner = [multiplied(child) for child in node["children"] if isinstance(child, dict)]
    match node["type"]:
        case "multi_select_list" | "multi_select_dict":
            return max(1, sum(inner))
        case "and_expression" | "or_expression" | "comparator":
            return max(inner)
        case "function_expression":
            return prod(inner) * (2 if node["value"] in GROWING else 1)
        case _:
            return prod(inner)
