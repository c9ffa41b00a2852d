"""What a client says of its software stays with the connection, within bounds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.server.handlers.api_versions import handle
from moldau.types.errors import ErrorCode
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class Announcing(SimpleNamespace):
    def announced_versions(self, version: int, *, to_broker: bool, to_own: bool) -> ApiVersionsResponse:
        return ApiVersionsResponse()


def asked(name: str, version: str) -> tuple[ErrorCode, ClientIdentity]:
    client = ClientIdentity(ANONYMOUS, "CLIENTS", "10.0.0.1")
    context = RequestContext(client, "c", 18, 4, 1)
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    return ErrorCode(handle(cast(Any, Announcing()), context, request).error_code), client


def test_no_more_is_kept_than_a_name_needs() -> None:
    error, client = asked("n" * 30_000, "1." * 15_000 + "0")
    assert error is ErrorCode.NONE
    assert (len(client.software_name), len(client.software_version)) == (255, 255)


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ž"])
def test_what_is_no_name_is_refused_and_not_kept(name: str) -> None:
    for pair in ((name, "1"), ("x", name)):
        error, client = asked(*pair)
        assert error is ErrorCode.INVALID_REQUEST
        assert (client.software_name, client.software_version) == ("unknown", "unknown")
