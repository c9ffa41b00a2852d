"""The client without its sockets: frames however they are cut, answers matched, versions chosen, logins by steps."""

from __future__ import annotations

import random
from collections.abc import Generator
from struct import pack
from typing import Any

import pytest

from moldau.client.core import ClientCore, Frames, Introduction, Step
from moldau.client.errors import AuthenticationFailed, ConnectionLost, VersionUnsupported
from moldau.client.settings import SaslSettings
from moldau.types.errors import ErrorCode
from moldau.wire.codec import decode, encode
from moldau.wire.framing import frame_response, read_request_header
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def framed(*bodies: bytes) -> bytes:
    return b"".join(pack(">i", len(body)) + body for body in bodies)


def core() -> ClientCore:
    made = ClientCore("broker", Introduction("test"))
    made.versions = {12: (0, 4)}
    return made


def frame_of(answer: HeartbeatResponse, correlation_id: int, version: int = 4) -> bytes:
    return frame_response(correlation_id, version >= 4, encode(answer, version))[4:]


@pytest.mark.parametrize("ahead_bytes", [4, 5, 64, 4096])
@pytest.mark.parametrize("seed", range(10))
def test_frames_arrive_whole_however_they_are_cut(ahead_bytes: int, seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice((4, 5, 7, 50, 4092, 5000, 70_000))) for _ in range(20)]
    stream, position = framed(*bodies), 0
    frames, found = Frames("broker", ahead_bytes), []
    while position < len(stream):
        room = frames.room()
        size = min(len(room), rng.choice((1, 2, 5, 100, 30_000)), len(stream) - position)
        room[:size] = stream[position : position + size]
        found += frames.received(size)
        position += size
    assert found == bodies


def test_with_the_least_room_nothing_behind_the_frame_is_taken() -> None:
    frames = Frames("broker")
    assert len(frames.room()) == 4
    frames.room()[:] = pack(">i", 10)
    assert frames.received(4) == []
    assert len(frames.room()) == 10


@pytest.mark.parametrize("size", [-1, 0, 3, 101])
def test_a_size_that_no_answer_has_ends_the_connection(size: int) -> None:
    frames = Frames("broker", largest=100)
    frames.room()[:4] = pack(">i", size)
    with pytest.raises(ConnectionLost, match="not a Kafka broker"):
        frames.received(4)


def test_answers_belong_to_requests_in_their_order() -> None:
    client = core()
    first_bytes, first = client.write(HeartbeatRequest(group_id="a"), HeartbeatResponse, 4)
    _, second = client.write(HeartbeatRequest(group_id="b"), HeartbeatResponse, 0)
    header = read_request_header(first_bytes[4:])
    assert (header.api_key, header.api_version, header.client_id) == (12, 4, "test")
    assert client.in_flight == 2
    assert client.read(frame_of(HeartbeatResponse(error_code=25), header.correlation_id)) == (
        first,
        HeartbeatResponse(error_code=25),
    )
    assert client.is_next(second)
    assert client.read(frame_of(HeartbeatResponse(), header.correlation_id + 1, 0))[0] is second


def test_a_request_without_an_answer_is_not_waited_for() -> None:
    client = core()
    client.write(HeartbeatRequest(), HeartbeatResponse, 4, answered=False)
    assert client.in_flight == 0
    with pytest.raises(ConnectionLost, match="nobody has asked"):
        client.read(frame_of(HeartbeatResponse(), 1))


def test_an_answer_out_of_order_is_not_taken_for_another() -> None:
    client = core()
    client.write(HeartbeatRequest(), HeartbeatResponse, 4)
    client.write(HeartbeatRequest(), HeartbeatResponse, 4)
    with pytest.raises(ConnectionLost, match="request 2 came out of order"):
        client.read(frame_of(HeartbeatResponse(), 2))


def test_an_answer_that_ends_too_early_is_told() -> None:
    client = core()
    client.write(HeartbeatRequest(), HeartbeatResponse, 4)
    with pytest.raises(ConnectionLost, match="could not be read"):
        client.read(frame_of(HeartbeatResponse(), 1)[:6])


def test_the_highest_version_that_all_allow() -> None:
    client = core()
    client.versions = {12: (1, 3)}
    assert client.version_of(HeartbeatRequest()) == 3
    assert client.version_of(HeartbeatRequest(), 2) == 2
    with pytest.raises(VersionUnsupported, match="Heartbeat 1 to 3"):
        client.version_of(HeartbeatRequest(), 0)
    client.versions = {12: (5, 6)}
    with pytest.raises(VersionUnsupported):
        client.version_of(HeartbeatRequest())


def opened(client: ClientCore, answers: list[Any]) -> list[Step]:
    """Runs the opening over scripted answers; what was asked."""
    opening: Generator[Step, Any, None] = client.opening(lambda count: b"r" * count)
    asked = [next(opening)]
    try:
        for answer in answers:
            step = opening.send(answer)
            asked.append(step)
    except StopIteration:
        return asked
    raise AssertionError("the opening wants to know more")


def test_opening_learns_the_versions() -> None:
    client = core()
    (step,) = opened(client, [ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=1, max_version=9)])])
    assert isinstance(step.request, ApiVersionsRequest)
    assert (step.version, step.request.client_software_name) == (3, "moldau")
    assert client.versions == {3: (1, 9)}


def test_an_old_broker_is_asked_again_in_version_0() -> None:
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    steps = opened(core(), [refusal, ApiVersionsResponse()])
    assert [step.version for step in steps] == [3, 0]


def test_a_login_says_who_we_are_and_no_more() -> None:
    client = ClientCore("broker", Introduction("test", sasl=SaslSettings("PLAIN", "user", "secret")))
    served = [ApiVersion(api_key=key, min_version=0, max_version=1) for key in (17, 36)]
    steps = opened(client, [ApiVersionsResponse(api_keys=served), SaslHandshakeResponse(), SaslAuthenticateResponse()])
    assert [type(step.request) for step in steps[1:]] == [SaslHandshakeRequest, SaslAuthenticateRequest]
    assert decode(SaslAuthenticateRequest, 1, encode(steps[2].request, 1))[0].auth_bytes == b"\0user\0secret"


def test_a_refused_login_is_final() -> None:
    client = ClientCore("broker", Introduction("test", sasl=SaslSettings("PLAIN", "user", "secret")))
    served = [ApiVersion(api_key=key, min_version=0, max_version=1) for key in (17, 36)]
    refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no")
    with pytest.raises(AuthenticationFailed, match="refused user 'user': no"):
        opened(client, [ApiVersionsResponse(api_keys=served), SaslHandshakeResponse(), refusal])
