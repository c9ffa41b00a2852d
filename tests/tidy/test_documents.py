"""The documents name what is there, and only what is there."""

from __future__ import annotations

import ast
import re
import tomllib

from packaging.requirements import Requirement

from tests.tidy.tree import ROOT, SOURCE, python_files, text_files, tree_of

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)")


def test_every_folder_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    inside = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    beside = {path.relative_to(ROOT).parts[0] for path in python_files() if path.parent != ROOT} - {"src"}
    assert sorted(name for name in inside | beside if f"`{name}/`" not in text) == []


def test_the_architecture_names_no_folder_that_is_gone() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text[text.index("## Folders") : text.index("## Layers")]
    named = re.findall(r"^\| `([\w./]+)/`", table, re.MULTILINE)
    assert named, "the folder table has rows like | `storage/` | ..."
    # An empty folder is not part of a clone.
    assert [name for name in named if not (any(SOURCE.glob(f"{name}/*")) or any(ROOT.glob(f"{name}/*")))] == []


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    reasons = text[text.index("## Dependencies") :]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["spark"],
        *project["optional-dependencies"]["demo"],
        *project["optional-dependencies"]["dev"],
    ]
    names = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in wanted} - {"moldau"}
    assert sorted(name for name in names if f"`{name}`" not in reasons) == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in text_files()
        if path.suffix == ".md"
        for target in LINK.findall(path.read_text())
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = (path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    assert sorted(page for page in pages if page != "index.md" and f"({page})" not in index) == []


def test_every_example_is_in_its_page() -> None:
    named = set(re.findall(r"^\| `(\w+)\.py`", (ROOT / "docs" / "howto" / "examples.md").read_text(), re.MULTILINE))
    assert named == {path.stem for path in (ROOT / "examples").glob("*.py")} - {"common"}


def test_every_error_of_the_sink_has_its_remedy() -> None:
    errors = tree_of(SOURCE / "spark" / "writing" / "errors.py").body
    page = (ROOT / "docs" / "howto" / "exactly-once.md").read_text()
    remedies = page[page.index("## When it stops") :]
    names = [node.name for node in errors if isinstance(node, ast.ClassDef)]
    assert [name for name in names if f"`{name}`" not in remedies] == []


def test_make_targets_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for path in text_files()
        if path.suffix == ".md"
        for target in re.findall(r"`make ([a-z]+)", path.read_text())
    }
    assert named - targets == set()


def test_every_pin_is_within_its_range() -> None:
    pins = dict(
        line.lower().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["demo"], *extras["dev"]]:
        requirement = Requirement(text)
        if requirement.name != "moldau":
            assert requirement.specifier.contains(pins[requirement.name]), text
