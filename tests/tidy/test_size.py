"""Files and functions stay small enough to be read in one sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.tree import PYTHON_FOLDERS, is_generated, python_files, short, tree_of

FILE_LINES = 600
FUNCTION_LINES = 60

# The ratchet: functions that were longer when the rule came, with their length then. They may only shrink, and a
# function that fits now must leave the list.
LONG_FUNCTIONS: dict[str, int] = {}


def test_no_file_is_longer_than_the_limit() -> None:
    lengths = {
        short(path): len(path.read_text().splitlines())
        for path in python_files(*PYTHON_FOLDERS)
        if not is_generated(path)
    }
    assert {path: length for path, length in lengths.items() if length > FILE_LINES} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    too_long = {name: length for name, length in _function_lengths().items() if length > FUNCTION_LINES}
    grown = {name: length for name, length in too_long.items() if length > LONG_FUNCTIONS.get(name, FUNCTION_LINES)}
    assert grown == {}, "split these functions by what they do"


def test_functions_of_one_name_do_not_hide_each_other() -> None:
    source = "class One:\n    def read(self):\n        pass\n\n\nclass Two:\n    def read(self): pass\n"
    assert list(function_lengths(ast.parse(source))) == [(2, "One.read", 2), (7, "Two.read", 1)]


def test_the_ratchet_only_tightens() -> None:
    lengths = _function_lengths()
    loose = {name: allowed for name, allowed in LONG_FUNCTIONS.items() if lengths.get(name, 0) < allowed}
    assert loose == {}, "these functions are shorter or gone: lower or remove their line in LONG_FUNCTIONS"


def _function_lengths() -> dict[str, int]:
    return {
        f"{short(path)}:{line}:{name}": length
        for path in python_files(*PYTHON_FOLDERS)
        if not is_generated(path)
        for line, name, length in function_lengths(tree_of(path))
    }


def function_lengths(node: ast.AST, within: str = "") -> Iterator[tuple[int, str, int]]:
    """The line, the name with what it lies in, and the length of each function: a file may hold many of one name"""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from function_lengths(child, within)
            continue
        name = f"{within}{child.name}"
        if not isinstance(child, ast.ClassDef):
            assert child.end_lineno is not None
            yield child.lineno, name, child.end_lineno - child.lineno + 1
        yield from function_lengths(child, f"{name}.")
