"""Groups and transactional ids belong to the partition that Java's hash names."""

from __future__ import annotations

import pytest

from moldau.coordinators.sharding import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("ä", 228),
        ("😀", 1772899),
    ],
)
def test_java_hashes(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize(("group", "partition"), [("simple", 26), ("obsg2", 7), ("obsgroup", 49)])
def test_partitions_that_kafka_chose(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


def test_the_smallest_number_has_no_positive_twin() -> None:
    assert partition_for("polygenelubricants", 50) == 0
