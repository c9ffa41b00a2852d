"""Files and functions stay small enough to be read in one sitting."""

from __future__ import annotations

import ast

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


def test_the_ratchet_only_tightens() -> None:
    lengths = _function_lengths()
    loose = {name: allowed for name, allowed in LONG_FUNCTIONS.items() if lengths.get(name, 0) < allowed}
    assert loose == {}, "these functions are shorter or gone: lower or remove their line in LONG_FUNCTIONS"


def _function_lengths() -> dict[str, int]:
    lengths = {}
    for path in python_files(*PYTHON_FOLDERS):
        if is_generated(path):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lengths[f"{short(path)}:{node.name}"] = node.end_lineno - node.lineno + 1
    return lengths
