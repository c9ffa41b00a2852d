"""What commands print, apart from what they know."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.output import (
    EXIT_CODES,
    CommandError,
    Format,
    nearest,
    plural,
    print_table,
    show,
    size_text,
    to_yaml,
)
from moldau.cli.tables import Column, Table, lines_of


def table() -> Table:
    made = Table([Column("topic"), Column("records", right=True), Column("id", wide=True)])
    made.add("orders", 12, "a")
    made.add("x", None, "b")
    return made


def test_plain_tables_are_aligned_and_never_cut() -> None:
    assert lines_of(table().without_wide()) == [
        "TOPIC   RECORDS",
        "orders       12",
        "x             -",
    ]
    assert lines_of(table())[0] == "TOPIC   RECORDS  ID"
    long = Table([Column("value")], rows=[["x" * 500]])
    assert lines_of(long)[1] == "x" * 500


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_and_a_file_get_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out, screen = io.StringIO(), Terminal()
    print_table(table(), out)
    print_table(table(), screen)
    assert out.getvalue().splitlines() == lines_of(table())
    assert screen.getvalue() == out.getvalue().replace("TOPIC   RECORDS  ID", "\x1b[1mTOPIC   RECORDS  ID\x1b[0m")


def test_an_empty_result_is_said_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(Format.table, [], lambda: [Table([Column("topic")])], empty="no topics")
    assert capsys.readouterr() == ("", "no topics\n")
    show(Format.json, [], list, empty="no topics")
    assert capsys.readouterr() == ("[]\n", "")


def test_lists_truth_and_nothing_in_cells() -> None:
    cells = Table([Column("a"), Column("b"), Column("c")], rows=[[[1, 2], True, None]])
    assert lines_of(cells)[1].split() == ["1,2", "yes", "-"]


def test_yaml_of_what_commands_print() -> None:
    document = [{"name": "t", "config": {"retention.ms": "5"}, "layout": [{"isr": [1, 2]}], "none": None, "empty": []}]
    assert to_yaml(document).splitlines() == [
        '- name: "t"',
        "  config:",
        '    "retention.ms": "5"',
        "  layout:",
        "    - isr:",
        "        - 1",
        "        - 2",
        "  none: null",
        "  empty: []",
    ]


@given(st.one_of(st.text(), st.integers(), st.booleans(), st.none()))
def test_yaml_scalars_are_json_scalars(value: Any) -> None:
    assert json.loads(to_yaml(value)) == value


def test_an_error_is_one_line() -> None:
    assert str(CommandError("a\n  b", "do\nthis")) == "a b; do this"
    assert str(CommandError("a")) == "a"


def test_the_nearest_name() -> None:
    assert nearest("ordrs", ["orders", "payments"]) == "did you mean 'orders'?"
    assert nearest("zzz", ["orders"]) == ""


def test_sizes() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1_500_000, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.4 MiB",
        "5.0 GiB",
    ]


def test_every_exit_code_is_explained_once() -> None:
    assert sorted(EXIT_CODES) == [0, 1, 2, 3, 4, 5, 130]
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)


def test_one_and_many() -> None:
    assert [plural(count, "topic") for count in (0, 1, 2, 5000)] == ["0 topics", "1 topic", "2 topics", "5,000 topics"]
