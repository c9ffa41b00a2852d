"""The files of the project as the tidy tests see them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "moldau"
PYTHON_FOLDERS = ("src", "tests", "bench", "scripts", "codegen", "examples")
TEXT_SUFFIXES = {".py", ".pyi", ".md", ".toml", ".txt", ".c", ".h", ".tsv", ".cfg", ".yml", ".yaml", ".sh", ".json", ""}
NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__", "scratch"}
# The generator marks what it writes; such files may be as long as the protocol needs.
GENERATED_MARK = "Generated"
MARK_LINES = 5


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Every Python file below the given folders of the repository."""
    found = (path for folder in folders or PYTHON_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path for path in found if not NOT_OURS & set(path.parts)))


@cache
def text_files() -> tuple[Path, ...]:
    """Every text file that belongs to the repository."""
    return tuple(
        sorted(
            path
            for path in ROOT.rglob("*")
            if path.is_file()
            and path.suffix in TEXT_SUFFIXES
            and not any(
                part in NOT_OURS or part.endswith((".egg-info", "_cache")) or part == ".hypothesis"
                for part in path.relative_to(ROOT).parts
            )
        )
    )


def packages() -> list[Path]:
    """Every folder of the product that holds Python."""
    return sorted({path.parent for path in python_files("src") if path.parent != SOURCE and SOURCE in path.parents})


def is_generated(path: Path) -> bool:
    """Whether a generator wrote this file."""
    head = path.read_text().splitlines()[:MARK_LINES]
    return any(GENERATED_MARK in line for line in head)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), filename=str(path))


def short(path: Path) -> str:
    """The path as a person of the project writes it."""
    return path.relative_to(ROOT).as_posix()
