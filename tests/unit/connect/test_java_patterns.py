"""Regular expressions where no Java can be asked: what is surely wrong is refused, what Java alone knows is not."""

from __future__ import annotations

import pytest

from moldau.connect.java_patterns import pythons_problem

TAKEN = [
    "",
    "a.*",
    "(?!outbox).*",
    "(?<=a)b",
    "(?<name>.*)",
    "a++",
    r"\p{Alpha}+",
    "[a-z&&[^x]]",
    r"\Qa(b\E",
    "(?i)a",
    "(?i:a)b",
]


@pytest.mark.parametrize("pattern", TAKEN)
def test_what_java_takes_is_taken(pattern: str) -> None:
    assert pythons_problem(pattern) is None


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "*", "a**", "(?<n>a)(?<n>b)"])
def test_what_is_surely_wrong_is_refused(pattern: str) -> None:
    assert pythons_problem(pattern)
