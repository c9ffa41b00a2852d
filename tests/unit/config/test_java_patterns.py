"""Java's regular expressions: its syntax, whole names."""

from __future__ import annotations

import pytest

from moldau.config.java_patterns import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["orders2", "my-orders"]),
        ("orders|returns", ["orders", "returns"], ["ordersreturns"]),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"(?<kind>log)s-\p{Digit}+", ["logs-12"], ["logs-x"]),
        (r"[\p{Lower}_]+", ["a_b"], ["aB"]),
        (r"\P{Digit}+", ["ab"], ["a1"]),
        ("(?!__).*", ["a"], ["__a"]),
        (r"a\.b[.\]]*", ["a.b.]"], ["axb"]),
        ("(?i)Orders", ["ORDERS"], ["order"]),
    ],
)
def test_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert [name for name in matching + others if compiled.fullmatch(name)] == matching


@pytest.mark.parametrize("pattern", ["(", r"\p{IsGreek}", "[a-z&&[^b]]", r"[\P{Digit}]"])
def test_what_cannot_be_carried_over_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|class"):
        compile_pattern(pattern)
