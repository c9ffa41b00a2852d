"""Tables in a narrow terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.tables import Column, Table, lines_of

UUID = "rdkafka-7c9a4c1e-93f7-4a05-8a0e-2f3b9c1d5e6f"
WORDS = st.text("abc", min_size=1, max_size=12)


def members() -> Table:
    table = Table([Column("member"), Column("lag", right=True), Column("reads")])
    table.add(UUID, 7, ["orders-0", "orders-1", "orders-2", "payments-0"])
    return table


def test_a_narrow_terminal_folds_lists_and_keeps_ids_whole() -> None:
    assert lines_of(members(), 80) == [
        "MEMBER                                        LAG  READS",
        f"{UUID}    7  orders-0,orders-1,orders-2,",
        f"{' ' * 44}       payments-0",
    ]


def test_a_terminal_too_narrow_for_the_columns_gets_a_block_for_each_row() -> None:
    table = members()
    table.add("other", None, [])
    assert lines_of(table, 50) == [
        f"MEMBER  {UUID}",
        "LAG     7",
        "READS   orders-0,orders-1,orders-2,payments-0",
        "",
        "MEMBER  other",
        "LAG     -",
        "READS   -",
    ]


@given(
    st.lists(st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=3, max_size=3), max_size=5),
    st.integers(10, 120),
)
def test_no_word_is_broken_and_no_line_of_columns_is_too_long(rows: list[list[str]], width: int) -> None:
    table = Table([Column("a"), Column("b"), Column("c")], rows=list(rows))
    lines = lines_of(table, width)
    words = [word for row in rows for cell in row for word in cell.split()]
    found = " ".join(lines).split()
    assert sorted(word for word in found if word.islower()) == sorted(words)
    if lines and lines[0].split() == ["A", "B", "C"]:
        assert max(map(len, lines)) <= width
