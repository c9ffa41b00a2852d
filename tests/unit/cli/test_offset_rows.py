"""Offsets of groups as CSV: one reader for `moldau group reset --from` and `kafka-consumer-groups --from-file`."""

from __future__ import annotations

import pytest

from moldau.cli.offset_rows import BadRowError, OffsetRow, offset_rows
from moldau.types.ids import TopicPartition


def test_rows_of_one_group_and_of_several() -> None:
    wanted = [OffsetRow("g", TopicPartition("t", 0), 7), OffsetRow("h", TopicPartition("t", 1), 8)]
    assert list(offset_rows("t,0,7\n\nh, t ,1, 8\n", "g")) == wanted
    assert list(offset_rows("g,t,0,7\nh,t,1,8\n", None)) == wanted


@pytest.mark.parametrize(("text", "group"), [("t,0,7\nt,0\n", "g"), ("g,t,0,7\nt,0,7\n", None), ("\nt,0,x\n", "g")])
def test_a_line_that_is_none_is_named(text: str, group: str | None) -> None:
    with pytest.raises(BadRowError) as bad:
        list(offset_rows(text, group))
    assert bad.value.line == 2
