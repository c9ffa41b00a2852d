"""What may not stand in any file: paths of one machine, promises of later work, addresses of registries."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.tree import packages, python_files, short, text_files, tree_of

# Written in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(?:wor" + r"k|home/\w+|roo" + r"t|Users/\w+|farm)/")
LATER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
#: An entry of log.dirs is a log directory, the place of a partition a folder. `--log-folder` takes the broker's lines.
ENTRIES_OF_LOG_DIRS = re.compile(r"\blog fol" + r"ders?\b|log_fol" + r"ders", re.IGNORECASE)
_A_FOLDER = r"(?<![*-])\b(?:[Ff]older" + r"s?|FOLDER)\b"
_LOG_DIRS = r"(?<!metadata\.)\blog[._]dirs?\b"
#: What a line or two say of them, by setting or by what happens to them alone; and names that say whose they are.
ENTRIES_OF_LOG_DIRS_IN_OTHER_WORDS = re.compile(
    rf"{_A_FOLDER}[^\n]*\n?[^\n]*{_LOG_DIRS}|{_LOG_DIRS}[^\n]*\n?[^\n]*{_A_FOLDER}"
    rf"|{_A_FOLDER}\s[^.]{{0,25}}\boffline\b|(?i:\b\w*(?:kafka|foreign|described|formatted)_?fol" + r"ders?)"
)
NEWLINE = "\n"
REGISTRIES = re.compile(r"(?:pypi\.or" + r"g|pythonhosted\.or" + r"g|repo1?\.maven\.|maven\.or" + r"g|registry\.npm)")


def test_no_path_of_one_machine() -> None:
    assert _lines_with(MACHINE_PATHS) == []


def test_nothing_is_promised_for_later() -> None:
    assert _lines_with(LATER) == []


def test_no_registry_address() -> None:
    assert _lines_with(REGISTRIES) == []


def test_entries_of_log_dirs_have_one_name() -> None:
    assert _lines_with(ENTRIES_OF_LOG_DIRS) == []


def test_entries_of_log_dirs_are_not_called_folders() -> None:
    found = [
        f"{short(path)}:{text.count(NEWLINE, 0, match.start()) + 1}: {' '.join(match[0].split())[:100]}"
        for path in text_files()
        if short(path).startswith(("src/", "docs/", "examples/"))
        for text in [path.read_text(errors="replace")]
        for match in ENTRIES_OF_LOG_DIRS_IN_OTHER_WORDS.finditer(text)
    ]
    assert found == []


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{short(path)}:{number}: {line.strip()[:100]}"
        for path in text_files()
        if path.name != "LICENSE"
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_every_package_says_its_duty() -> None:
    silent = []
    for package in packages():
        init = package / "__init__.py"
        if not init.exists() or not _docstring_of(init):
            silent.append(short(package))
    assert silent == [], "give each an __init__.py whose docstring says the duty of the folder and what it may import"


def test_no_code_in_init() -> None:
    allowed = ast.Import | ast.ImportFrom | ast.Expr | ast.Assign | ast.AnnAssign | ast.If | ast.Try
    busy = [
        f"{short(path)}:{node.lineno}"
        for path in python_files("src")
        if path.name == "__init__.py"
        for node in tree_of(path).body
        if not isinstance(node, allowed)
    ]
    assert busy == []


def _docstring_of(path: Path) -> str | None:
    return ast.get_docstring(tree_of(path))


def test_no_help_is_taken_for_markup() -> None:
    """On a terminal rich reads square brackets in a help text as markup and drops them."""
    found = [
        f"{short(path)}:{node.lineno}"
        for path in python_files("src")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.keyword)
        and node.arg == "help"
        and isinstance(node.value, ast.Constant)
        and re.search(r"\[[a-z/]", str(node.value.value))
    ]
    assert found == []
