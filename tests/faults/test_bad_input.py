"""Hostile and broken peers over real sockets: each is answered or cut off, and the broker keeps serving the others.

Every test ends by asking the same broker to serve an honest client, and looks at its memory where input could grow it.
"""

from __future__ import annotations

import contextlib
import random
import resource
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.choice import new_broker
from tests.support.clients import Confluent, Message
from tests.support.process import BrokerProcess, free_port, resident_bytes
from tests.support.raw import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    RawConnection,
    api_versions,
    fetch_body,
    known_brokers,
    request,
    string,
)
from tests.support.waiting import wait_until

MEGABYTE = 1024 * 1024
REQUEST_LIMIT = 5 * MEGABYTE
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
client = Confluent()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = new_broker(tmp_path_factory.mktemp("broker"), {"socket.request.max.bytes": REQUEST_LIMIT}, free_port())
    with process:
        client.produce(process.address, "honest", [Message(b"x" * 1000)] * 1000)
        yield process


@pytest.fixture(autouse=True)
def still_serving(broker: BrokerProcess) -> Iterator[None]:
    """Whatever a test did, an honest client notices nothing, and the broker has not grown by more than 64 MB."""
    before = resident_bytes(broker.pid)
    yield
    assert broker.running, broker.output()
    (offset,) = client.produce(broker.address, "honest", [Message(b"after")])
    assert client.consume(broker.address, "honest", 1, offset=offset)[0].value == b"after"
    assert resident_bytes(broker.pid) - before < 64 * MEGABYTE
    assert "Traceback" not in broker.output(), broker.output()


def connect(broker: BrokerProcess, seconds: float = 10.0) -> RawConnection:
    return RawConnection(broker.address, seconds)


def test_random_bytes(broker: BrokerProcess) -> None:
    """A stream of noise is no protocol: the connection is closed."""
    noise = random.Random(1)
    for _ in range(50):
        with connect(broker) as connection:
            # The first byte makes the length negative or far too large, so that no frame is waited for.
            try:
                connection.send(bytes([noise.choice((0xFF, 0x80, 0x7F))]) + noise.randbytes(noise.randrange(3, 5000)))
            except (ConnectionResetError, BrokenPipeError):
                continue
            assert connection.is_closed_by_peer()


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, REQUEST_LIMIT + 1, 0x47455420], ids=str)
def test_impossible_lengths(broker: BrokerProcess, length: int) -> None:
    """Negative, or over socket.request.max.bytes (the last one is what `GET ` of HTTP looks like)."""
    with connect(broker) as connection:
        connection.send(struct.pack(">i", length))
        assert connection.is_closed_by_peer()


@pytest.mark.parametrize("size", range(8))
def test_frames_too_short_for_a_header(broker: BrokerProcess, size: int) -> None:
    with connect(broker) as connection:
        connection.send(struct.pack(">i", size) + bytes(size))
        assert connection.is_closed_by_peer()


@pytest.mark.parametrize(
    ("api_key", "version"), [(PRODUCE, 2), (PRODUCE, 99), (FETCH, 3), (METADATA, 99), (4711, 0), (-1, 0), (3, -1)]
)
def test_unknown_apis_and_versions(broker: BrokerProcess, api_key: int, version: int) -> None:
    """Like Kafka: an error answer or the end of the connection, never a wait."""
    with connect(broker) as connection:
        connection.send(request(api_key, version, bytes(40)))
        assert connection.receive() is None or not connection.is_closed_by_peer()


def test_api_versions_from_the_future(broker: BrokerProcess) -> None:
    """Answered as version 0 with UNSUPPORTED_VERSION and the list, and the connection stays usable."""
    with connect(broker) as connection:
        # Since version 3 its request header ends with tagged fields, of which there are none.
        connection.send(request(API_VERSIONS, 99, b"\x00", correlation_id=5))
        answer = connection.receive()
        assert answer is not None
        correlation_id, error, count = struct.unpack_from(">ihi", answer)
        assert (correlation_id, error) == (5, 35)
        assert count > 0
        assert api_versions(connection) > 10


def test_bodies_cut_short(broker: BrokerProcess) -> None:
    """Every prefix of a valid Metadata and Produce request, framed as if it were whole."""
    body = struct.pack(">i", 1) + string("honest") + b"\x00\x00\x00"
    bodies = [(METADATA, 8, body[:cut]) for cut in range(len(body))]
    produce = struct.pack(">hhii", -1, 1, 1000, 1) + string("honest") + struct.pack(">iii", 1, 0, 200) + bytes(150)
    bodies += [(PRODUCE, 7, produce[:cut]) for cut in range(0, len(produce), 3)]
    for api_key, version, short in bodies:
        with connect(broker) as connection:
            connection.send(request(api_key, version, short))
            assert connection.receive() is None, (api_key, len(short))


@pytest.mark.parametrize("count", [2**31 - 1, 100_000_000])
def test_arrays_that_claim_to_be_huge(broker: BrokerProcess, count: int) -> None:
    """A count is not a reason to reserve memory."""
    with connect(broker) as connection:
        connection.send(request(METADATA, 8, struct.pack(">i", count) + b"\x00\x00\x00"))
        assert connection.receive() is None


def test_fuzzed_requests(broker: BrokerProcess) -> None:
    """Valid requests with a few bytes changed: an answer or the end of the connection; others are served meanwhile."""
    fuzz = random.Random(20)
    seeds = [
        request(METADATA, 8, struct.pack(">i", 1) + string("honest") + b"\x00\x00\x00"),
        request(METADATA, 12, b"\x00\x02" + bytes(16) + b"\x07honest\x00\x00\x00\x00"),
        request(PRODUCE, 7, struct.pack(">hhii", -1, 1, 1000, 1) + string("honest")
                + struct.pack(">iii", 1, 0, 61) + bytes(61)),
        request(FETCH, 11, struct.pack(">iiiibiii", -1, 0, 1, MEGABYTE, 0, 0, -1, 1) + string("honest")
                + struct.pack(">iiiqqi", 1, 0, -1, 0, -1, MEGABYTE) + struct.pack(">i", 0) + string("")),
        request(2, 5, struct.pack(">ibi", -1, 0, 1) + string("honest") + struct.pack(">iiiq", 1, 0, -1, -1)),
        request(19, 4, struct.pack(">i", 1) + string("fuzz") + struct.pack(">ihiiib", 1, 1, 0, 0, 1000, 1)),
        request(32, 2, struct.pack(">ib", 1, 2) + string("honest") + struct.pack(">ib", -1, 0)),
        request(22, 1, struct.pack(">hi", -1, 60_000)),
        request(18, 3, b"\x00\x04fuz\x02x\x00"),
    ]  # fmt: skip
    with connect(broker) as honest:
        for _ in range(600):
            frame = bytearray(fuzz.choice(seeds))
            for _ in range(fuzz.randrange(1, 6)):
                frame[fuzz.randrange(4, len(frame))] = fuzz.choice((0, 1, 0x7F, 0x80, 0xFF, fuzz.randrange(256)))
            with connect(broker) as connection:
                connection.send(bytes(frame))
                # No more will come, so that a long poll asked for by accident does not hold up the test.
                connection.socket.shutdown(socket.SHUT_WR)
                connection.socket.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    connection.receive()
            assert known_brokers(honest) == 1


def test_pipelined_requests_are_answered_in_order(broker: BrokerProcess) -> None:
    """NET-02: many requests at once on one connection, and split at every place."""
    frames = b"".join(
        request(METADATA, 1, struct.pack(">i", 0), correlation_id=number) if number % 2
        else request(API_VERSIONS, 0, b"", correlation_id=number)
        for number in range(200)
    )  # fmt: skip
    with connect(broker) as connection:
        connection.send(frames)
        assert _correlation_ids(connection, 200) == list(range(200))
        for at in range(0, 2000, 7):
            connection.send(frames[at : at + 7])
        connection.send(frames[2002:])
        assert _correlation_ids(connection, 200) == list(range(200))


def _correlation_ids(connection: RawConnection, count: int) -> list[int]:
    answers = [connection.receive() for _ in range(count)]
    return [struct.unpack_from(">i", answer)[0] for answer in answers if answer is not None]


def test_a_request_one_byte_at_a_time(broker: BrokerProcess) -> None:
    with connect(broker) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request(METADATA, 1, struct.pack(">i", 0)):
            connection.send(bytes([byte]))
        assert connection.receive() is not None


def test_half_open_connections(broker: BrokerProcess) -> None:
    """Connections that say nothing, half a length, half a frame, or leave with a reset while an answer is due."""
    with contextlib.ExitStack() as held:
        for number in range(300):
            connection = held.enter_context(connect(broker))
            if number % 4 == 1:
                connection.send(b"\x00\x00")
            elif number % 4 == 2:
                # A frame of 4 MB is announced and never comes: memory may not be taken for it.
                connection.send(struct.pack(">i", 4 * MEGABYTE) + b"\x00\x03\x00\x01")
            elif number % 4 == 3:
                connection.send(request(FETCH, 4, fetch_body("honest", wait_ms=60_000)))
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                connection.close()
        with connect(broker) as honest:
            assert api_versions(honest) > 10


def test_slow_readers_cost_no_memory(broker: BrokerProcess) -> None:
    """Forty readers ask for 40 MB each, several times, and read nothing: answers are not piled up in memory."""
    values = [Message(bytes(range(256)) * 2048)] * 80
    client.produce(broker.address, "large", values)
    before = resident_bytes(broker.pid)
    with contextlib.ExitStack() as held:
        readers = [held.enter_context(connect(broker)) for _ in range(40)]
        for reader in readers:
            for _ in range(5):
                reader.send(request(FETCH, 4, fetch_body("large")))
        # Answers have started to arrive everywhere, so the broker has begun to send to all of them.
        for reader in readers:
            assert reader.socket.recv(4)
        with connect(broker) as honest:
            for _ in range(100):
                assert known_brokers(honest) == 1
        assert resident_bytes(broker.pid) - before < 128 * MEGABYTE
        # A reader that takes its answer gets it whole, while the others still hold theirs up.
        with connect(broker, 30) as quick:
            quick.send(request(FETCH, 4, fetch_body("large")))
            answer = quick.receive()
        assert answer is not None and len(answer) > 40 * MEGABYTE


def test_a_writer_that_reads_no_answers(broker: BrokerProcess) -> None:
    """Requests whose answers nobody takes: the broker stops reading from that connection instead of buffering."""
    # Each request asks for an answer some twenty times its size; kernels buffer a few MB of those.
    requests = request(API_VERSIONS, 0, b"") * (10 * MEGABYTE // 15)
    with connect(broker) as connection:
        connection.socket.setblocking(False)
        sent = 0
        while sent < len(requests) and select.select([], [connection.socket], [], 3.0)[1]:
            sent += connection.socket.send(requests[sent : sent + 65536])
        assert sent < len(requests), "everything was read although no answer was taken"


@pytest.mark.timeout(600)
def test_ten_thousand_idle_connections(broker: BrokerProcess) -> None:
    """Each still works, and none costs more than a few KB. Where the system lets a process open fewer files, as many as
    it allows: the broker and this test hold one for each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = min(10_000, (hard if hard > 0 else 100_000) - 500)
    before = resident_bytes(broker.pid)
    connections: list[RawConnection] = []
    try:
        while len(connections) < wanted:
            # More than socket.listen.backlog.size at once would wait for a resent SYN.
            lot = [connect(broker, 60) for _ in range(min(40, wanted - len(connections)))]
            connections += lot
            for connection in lot:
                connection.send(request(API_VERSIONS, 0, b""))
            for connection in lot:
                assert connection.receive() is not None
        assert resident_bytes(broker.pid) - before < wanted * 6144 + 8 * MEGABYTE
        for connection in connections[::97]:
            assert api_versions(connection) > 10
        with connect(broker, 60) as one_more:
            assert known_brokers(one_more) == 1
    finally:
        for connection in connections:
            # Without a farewell: thousands of ports would else be out of use for a minute.
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: open_files(broker) < wanted // 10, "the broker has closed its ends")


def open_files(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
