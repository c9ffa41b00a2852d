"""Each client writes with every codec and acknowledgement, and each other client reads the same messages back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients import A_DAY_AGO_MS, CLIENTS, CODECS, Client, Confluent, Message
from tests.support.segments import partition_folder, stored_batches

by_name = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)

NOW = A_DAY_AGO_MS

# What a format can get wrong: absent and empty differ, bytes are opaque, headers keep their order and repeats.
SHAPES = (
    Message(b"plain", b"key", timestamp=NOW),
    Message(None, b"tombstone", timestamp=NOW + 1),
    Message(b"no key", None, timestamp=NOW + 2),
    Message(b"", b"", timestamp=NOW + 3),
    Message(bytes(range(256)), b"\x00\xff\xfe", timestamp=NOW + 4),
    Message(b"headers", b"key", (("trace", b"1"), ("trace", b"2"), ("empty", b"")), NOW + 5),
    Message(b"older than the one before", b"key", timestamp=NOW - 60_000),
    Message("Vltava \N{WATER WAVE}".encode(), "clé".encode(), (("ž", "č".encode()),), NOW + 6),
    Message(b"repeats itself " * 4000, b"large", timestamp=NOW + 7),
)


@by_name
@pytest.mark.parametrize("codec", CODECS)
def test_messages_come_back_as_they_were_sent(client: Client, codec: str, address: str, topic: str, data: Path) -> None:
    """PCF-10, MSG-01, MSG-04 to MSG-06, FMT-02, PR-17: every codec, read by every client; the codec bits on disk."""
    offsets = client.produce(address, topic, SHAPES, codec=codec)
    assert offsets == list(range(len(SHAPES)))
    for reader in CLIENTS:
        received = reader.consume(address, topic, len(SHAPES))
        assert [each.content() for each in received] == [each.content() for each in SHAPES], reader.name
        assert [each.timestamp for each in received] == [each.timestamp for each in SHAPES], reader.name
        assert [each.offset for each in received] == offsets, reader.name
    batches = stored_batches(partition_folder(data, topic))
    assert all(batch.crc_valid for batch in batches)
    # A client may leave a small batch uncompressed where that is shorter, but not the repetitive one.
    codecs = {batch.codec for batch in batches}
    assert codec in codecs
    assert codecs <= {codec, "none"}


def test_null_header_value(address: str, topic: str) -> None:
    """MSG-05: a header without a value is not one with an empty value (kafka-python cannot send it, all read it)."""
    headers = (("null", None), ("empty", b""))
    Confluent().produce(address, topic, [Message(b"value", headers=headers)])
    for reader in CLIENTS:
        assert reader.consume(address, topic, 1)[0].headers == headers, reader.name


@by_name
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements(client: Client, acks: str, address: str, topic: str) -> None:
    """PCF-04 to PCF-06: with acks 0 the producer hears nothing, and the messages are there all the same."""
    sent = [Message(b"%d" % number) for number in range(100)]
    client.produce(address, topic, [Message(b"the topic exists now")])
    offsets = client.produce(address, topic, sent, acks=acks)
    if acks != "0":
        assert offsets == list(range(1, 101))
    received = client.consume(address, topic, 100, offset=1)
    assert [each.value for each in received] == [each.value for each in sent]


@by_name
def test_idempotent_producer(client: Client, address: str, topic: str, data: Path) -> None:
    """PR-05, PCF-26: an idempotent producer's batches carry its producer id; two producers never share one."""
    sent = [Message(b"%d" % number) for number in range(50)]
    first = client.produce(address, topic, sent, idempotent=True)
    second = client.produce(address, topic, sent, idempotent=True)
    assert [*first, *second] == list(range(100))
    ids = {batch.producer_id for batch in stored_batches(partition_folder(data, topic))}
    assert len(ids) == 2
    assert min(ids) >= 0


@by_name
def test_reading_from_the_middle(client: Client, address: str, topic: str) -> None:
    """MSG-07, LOG-04: a fetch that starts inside a batch yields exactly the wanted offset first."""
    client.produce(address, topic, [Message(b"%d" % number) for number in range(200)], codec="lz4")
    received = client.consume(address, topic, 10, offset=137)
    assert [each.offset for each in received] == list(range(137, 147))
    assert [each.value for each in received] == [b"%d" % number for number in range(137, 147)]


@by_name
def test_total_order_in_one_partition(client: Client, address: str, topic: str) -> None:
    """TOP-07, PER-05: one partition keeps the order of 1,000 numbered messages."""
    sent = [b"%d" % number for number in range(1000)]
    client.produce(address, topic, [Message(value) for value in sent])
    assert [each.value for each in client.consume(address, topic, 1000)] == sent
