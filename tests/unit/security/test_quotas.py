"""Which limit holds, and how long whoever goes beyond it has to wait."""

from __future__ import annotations

from types import MappingProxyType

from moldau.metadata.image import QuotasImage
from moldau.security.quota_limits import Limit, QuotaLimits
from moldau.security.rates import Rate, TokenBucket
from moldau.types.quotas import QuotaKey, quota_entity

KEY = QuotaKey.PRODUCER_BYTE_RATE


def limits_of(*entities: tuple[dict[str, str | None], float]) -> QuotaLimits:
    limits = QuotaLimits(KEY)
    for names, value in entities:
        limits.set(quota_entity(names), QuotasImage(MappingProxyType({KEY: value}), 0))
    return limits


def test_what_says_more_of_a_client_is_stronger() -> None:
    """In Kafka's order; each is taken away once it was seen to hold."""
    order: list[tuple[dict[str, str | None], Limit]] = [
        ({"user": "u", "client-id": "c"}, Limit(1, "u", "c")),
        ({"user": "u", "client-id": None}, Limit(2, "u", "c")),
        ({"user": "u"}, Limit(3, "u", "")),
        ({"user": None, "client-id": "c"}, Limit(4, "u", "c")),
        ({"user": None, "client-id": None}, Limit(5, "u", "c")),
        ({"user": None}, Limit(6, "u", "")),
        ({"client-id": "c"}, Limit(7, "", "c")),
        ({"client-id": None}, Limit(8, "", "c")),
    ]
    limits = limits_of(*((names, limit.value) for names, limit in order))
    for names, limit in order:
        assert limits.of("u", "c") == limit
        limits.set(quota_entity(names), None)
    assert limits.of("u", "c") is None


def test_a_long_client_id_has_its_own_limit_and_little_is_kept_of_it() -> None:
    long, other = "x" * 30_000, "x" * 30_001
    limits = limits_of(({"client-id": long}, 1), ({"client-id": None}, 2))
    found, default = limits.of("u", long), limits.of("u", other)
    assert found is not None
    assert default is not None
    assert (found.value, default.value) == (1, 2)
    assert found.sharers != default.sharers
    assert len(found.client_id) < 255
    assert not limits._found


def test_a_host_limits_its_addresses_once_they_are_known() -> None:
    limits = QuotaLimits(QuotaKey.CONNECTION_CREATION_RATE)

    def give(name: str | None, limit: float | None) -> None:
        values = {QuotaKey.CONNECTION_CREATION_RATE: 0.0 if limit is None else limit}
        limits.set(
            quota_entity({"ip": name}), None if limit is None else QuotasImage(MappingProxyType(dict(values)), 0)
        )

    give("a.example", 3)
    give("b.example", 4)
    give("192.0.2.9", 5)
    give("2001:0DB8:0:0::9", 6)
    give(None, 9)
    assert limits.of_address("2001:db8::9") == 6, "however it is written"
    assert set(limits.hosts) == {"a.example", "b.example"}
    assert limits.of_address("192.0.2.1") == 9
    limits.looked_up({"a.example": ("192.0.2.1", "2001:db8::1"), "b.example": ("192.0.2.9",)})
    assert [limits.of_address(each) for each in ("192.0.2.1", "2001:db8::1", "192.0.2.2")] == [3, 3, 9]
    assert limits.of_address("192.0.2.9") == 5, "what is said of an address is stronger"
    give("a.example", 7)
    assert limits.of_address("192.0.2.1") == 7
    give("a.example", None)
    assert limits.of_address("192.0.2.1") == 9
    assert set(limits.hosts) == {"b.example"}


def test_a_rate_above_the_limit_waits_until_it_is_down() -> None:
    rate = Rate(11, 1000)
    rate.record(10_000, 0)
    assert rate.delay_ms(1000, 0) == 0  # ten windows at once
    rate.record(1000, 0)
    assert rate.delay_ms(1000, 0) == 1000
    assert rate.per_second(20_000) == 0


def test_a_bucket_is_owed_what_was_taken_beyond_it() -> None:
    bucket = TokenBucket(10, 1000, 5, 0)
    bucket.take(60, 5, 0)
    assert bucket.delay_ms(5, 0) == 2000
    assert bucket.delay_ms(5, 2000) == 0


def test_a_wait_is_never_longer_than_an_answer_can_tell() -> None:
    rate, bucket = Rate(11, 1000), TokenBucket(11, 1000, 1e-300, 0)
    rate.record(100_000_000, 0)
    bucket.take(5, 1e-300, 0)
    assert rate.delay_ms(1, 0) == 2**31 - 1
    assert bucket.delay_ms(1e-300, 0) == 2**31 - 1
