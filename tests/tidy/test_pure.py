"""Rules get time and chance as arguments. The import contract `pure` keeps whole modules out; this looks for single
names of modules that rules may import, in the rules and in everything that they import."""

from __future__ import annotations

import ast
import tomllib

import grimp
import pytest

from tests.tidy.tree import ROOT

FROM_OUTSIDE = frozenset({"uuid1", "uuid4", "urandom", "getrandom", "now", "utcnow", "today", "getenv", "environ"})

MODULES = frozenset({"uuid", "os", "datetime", "date", "datetime.datetime", "datetime.date"})


AT_IMPORT = {"moldau.kernels": ["os.environ"]}
"""What is looked up once, before any rule runs: which form of the kernels serves."""


def contract() -> dict[str, list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = (each for each in settings["tool"]["importlinter"]["contracts"] if each["id"] == "pure")
    assert "allow_indirect_imports" not in found, "a rule could reach a clock through a neighbour"
    return dict(found)


def pure_packages() -> list[str]:
    return contract()["source_modules"]


def neighbours() -> list[str]:
    """Every module that a rule imports, directly or through others."""
    graph = grimp.build_graph("moldau", cache_dir=None)
    for line in contract()["ignore_imports"]:
        importer, imported = line.split(" -> ")
        graph.remove_import(importer=importer, imported=imported)
    return sorted(set().union(*(graph.find_upstream_modules(each, as_package=True) for each in pure_packages())))


def source_of(module: str) -> str:
    path = ROOT / "src" / module.replace(".", "/")
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def named_from_outside(source: str) -> list[str]:
    """Names that are imported, and attributes of modules; a parameter may be called `now`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found += [f"line {node.lineno}: {name.name}" for name in node.names if name.name in FROM_OUTSIDE]
        elif isinstance(node, ast.Attribute) and node.attr in FROM_OUTSIDE and ast.unparse(node.value) in MODULES:
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("package", pure_packages())
def test_rules_take_time_and_chance_as_arguments(package: str) -> None:
    path = ROOT / "src" / package.replace(".", "/")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    assert files
    found = {str(file.relative_to(ROOT)): named_from_outside(file.read_text()) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_what_rules_import_takes_them_as_arguments_too() -> None:
    named = {
        module: [each.partition(": ")[2] for each in named_from_outside(source_of(module))] for module in neighbours()
    }
    assert {module: names for module, names in named.items() if names} == AT_IMPORT


def test_rules_have_neighbours() -> None:
    assert {"moldau.config.topic", "moldau.kernels", "moldau.wire.codec"} <= set(neighbours())


@pytest.mark.parametrize("source", ["from uuid import UUID, uuid4", "made = uuid.uuid4()", "os.urandom(3)"])
def test_such_names_are_found(source: str) -> None:
    assert named_from_outside(source)
