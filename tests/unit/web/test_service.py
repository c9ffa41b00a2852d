"""A service over real sockets: routing, login, bounds, answers, draining."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.config.definition import ConfigError
from moldau.metrics import Metrics
from moldau.web import ADMIN, WRITE, Api, ApiError, Call, Service, WebSettings, flag, number
from moldau.web.call import DEEPEST
from moldau.web.passwords import hash_password
from moldau.web.service import bound
from moldau.web.settings import Listener
from tests.support.tls import make_certificates


def small_api() -> tuple[Api, asyncio.Event]:
    api = Api("Test", "1", ("application/vnd.test+json", "application/json"))
    gate = asyncio.Event()

    @api.get("/things/{name}/parts/{id}", query=(flag("deep"), number("limit", 7)))
    async def part(call: Call) -> object:
        return {**call.path, **call.query}

    @api.post("/things", role=WRITE, body={"type": "object"})
    async def add(call: Call) -> object:
        return await call.json_object()

    @api.delete("/things/{name}", role=ADMIN, status=204)
    async def delete(call: Call) -> object:
        raise ApiError(404, f"no {call.path['name']}", 40401)

    @api.get("/slow")
    async def slow(call: Call) -> object:
        gate.set()
        await asyncio.sleep(0)
        return "done"

    @api.get("/broken")
    async def broken(call: Call) -> object:
        raise RuntimeError("a mistake")

    return api, gate


@asynccontextmanager
async def running(**properties: str) -> AsyncIterator[Service]:
    settings = WebSettings.of(properties, "http://127.0.0.1:0")
    async with Service(small_api()[0], settings, Metrics(), lambda: 1.0) as service:
        yield service


async def ask(
    service: Service, method: str, target: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.listeners[0].port)
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    answer = await reader.read()
    writer.close()
    head, _, content = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    return int(first.split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in rest)}, content


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_segments_are_cut_before_they_are_decoded_and_the_query_is_typed() -> None:
    async def test() -> None:
        async with running() as service:
            status, headers, body = await ask(service, "GET", "/things/a%2Fb%20c/parts/9?deep=True")
            assert (status, headers["content-type"]) == (200, "application/vnd.test+json")
            assert json.loads(body) == {"name": "a/b c", "id": "9", "deep": True, "limit": 7}
            assert (await ask(service, "GET", "/things/a/parts/9?limit=x"))[0] == 400
            assert (await ask(service, "GET", "/things/a/parts/9", Accept="application/json"))[1][
                "content-type"
            ] == "application/json"
            assert (await ask(service, "GET", "/things/a/parts/9", Accept="image/png"))[0] == 406

    run(test)


def test_what_is_wrong_is_told() -> None:
    async def test() -> None:
        async with running(**{"max.request.bytes": "100"}) as service:
            assert (await ask(service, "GET", "/nowhere"))[0] == 404
            status, headers, _ = await ask(service, "PUT", "/things")
            assert (status, headers["allow"]) == (405, "OPTIONS, POST")
            assert (await ask(service, "POST", "/things", b"{"))[0] == 400
            assert (await ask(service, "POST", "/things", b"[1]"))[0] == 422
            assert (await ask(service, "POST", "/things", b""))[0] == 422
            assert (await ask(service, "POST", "/things", b'"' + b"x" * 100))[0] == 413
            assert (await ask(service, "POST", "/things", b"[" * 99))[0] == 400
            assert (await ask(service, "POST", "/things", b"{}", Content_Type="text/xml"))[0] == 415
            status, _, body = await ask(service, "DELETE", "/things/x")
            assert (status, json.loads(body)) == (404, {"error_code": 40401, "message": "no x"})
            status, _, body = await ask(service, "GET", "/broken")
            assert (status, b"mistake" in body) == (500, False)

    run(test)


def test_names_passwords_and_roles(tmp_path: Path) -> None:
    """SX-17: 401 without credentials, and 200 with them."""
    users = tmp_path / "users"
    users.write_text(f"# people\nann: {hash_password('secret', b'salt')},read\nbob: {hash_password('b', b's')},admin\n")

    async def test() -> None:
        login = {"authentication.method": "BASIC", "authentication.password.file": str(users)}
        async with running(**login) as service:
            status, headers, _ = await ask(service, "GET", "/things/a/parts/9")
            assert status == 401 and headers["www-authenticate"].startswith("Basic")
            assert (await ask(service, "GET", "/things/a/parts/9", Authorization=basic("ann", "wrong")))[0] == 401
            for _ in range(2):
                assert (await ask(service, "GET", "/things/a/parts/9", Authorization=basic("ann", "secret")))[0] == 200
            assert (await ask(service, "POST", "/things", b"{}", Authorization=basic("ann", "secret")))[0] == 403
            assert (await ask(service, "POST", "/things", b"{}", Authorization=basic("bob", "b")))[0] == 200
            assert (await ask(service, "GET", "/health"))[0] == 200

    run(test)
    users.write_text("ann: secret,read\n")
    with pytest.raises(ConfigError, match="not a hash"):
        asyncio.run(start(users))


async def start(users: Path) -> None:
    async with running(**{"authentication.method": "BASIC", "authentication.password.file": str(users)}):
        pass


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def test_other_origins_are_let_in_only_where_they_are_named() -> None:
    async def test() -> None:
        async with running() as service:
            assert "access-control-allow-origin" not in (await ask(service, "GET", "/health", Origin="http://a"))[1]
        async with running(**{"access.control.allow.origin": "http://a"}) as service:
            assert (await ask(service, "GET", "/health", Origin="http://a"))[1][
                "access-control-allow-origin"
            ] == "http://a"

    run(test)


def test_the_description_and_the_metrics_name_what_is_there() -> None:
    async def test() -> None:
        async with running() as service:
            found = json.loads((await ask(service, "GET", "/openapi.json"))[2])
            assert set(found["paths"]["/things"]) == {"post"}
            assert "40401" not in json.dumps(found["paths"]["/things"])
            assert b"/things/{name}" in (await ask(service, "GET", "/docs"))[2]
            assert b'path="/docs"' in (await ask(service, "GET", "/metrics"))[2]

    run(test)


def test_a_service_that_stops_finishes_what_runs() -> None:
    async def test() -> None:
        api, gate = small_api()
        settings = WebSettings.of({}, "http://127.0.0.1:0")
        async with Service(api, settings, Metrics(), lambda: 1.0) as service:
            asked = asyncio.create_task(ask(service, "GET", "/slow"))
            await gate.wait()
            await service.close()
            assert (await asked)[0] == 200
            with pytest.raises(OSError):
                await ask(service, "GET", "/health")

    run(test)


def test_bad_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="listeners"):
        WebSettings.of({"listeners": "ftp://x"}, "")
    with pytest.raises(ConfigError, match="password"):
        WebSettings.of({"authentication.method": "BASIC"}, "http://x")


@pytest.mark.parametrize(
    ("properties", "is_open"),
    [
        ({"listeners": "http://0.0.0.0:8081"}, True),
        ({"listeners": "http://:8081"}, True),
        ({"listeners": "http://localhost:8081"}, False),
        ({}, False),
        (
            {
                "listeners": "http://0.0.0.0:8081",
                "authentication.method": "BASIC",
                "authentication.password.file": "/users",
            },
            False,
        ),
        ({"listeners": "https://0.0.0.0:8081"}, True),
        ({"listeners": "https://0.0.0.0:8081", "ssl.client.authentication": "REQUIRED"}, False),
        ({"listeners": "http://0.0.0.0:8081", "ssl.client.authentication": "REQUIRED"}, True),
    ],
)
def test_who_listens_on_every_interface_without_a_login(properties: dict[str, str], is_open: bool) -> None:
    settings = WebSettings.of(properties, "http://localhost:8081")
    assert bool(settings.open_to_everybody()) is is_open


def test_a_service_that_is_open_to_everybody_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        api, _ = small_api()
        settings = WebSettings.of({"listeners": "http://0.0.0.0:0"}, "")
        async with Service(api, settings, Metrics(), lambda: 1.0):
            pass

    run(test)
    assert "nobody has to log in" in caplog.text


@pytest.mark.parametrize(("mode", "told"), [(0o644, True), (0o600, False)])
def test_files_with_secrets_that_others_may_read_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, told: bool
) -> None:
    users, made = tmp_path / "users", make_certificates(tmp_path)
    users.write_text(f"ann: {hash_password('secret', b'salt')},read\n")
    keys = tmp_path / "keys.pem"
    keys.write_text(made.key.read_text() + made.certificate.read_text())
    for path in (users, keys):
        path.chmod(mode)

    async def test() -> None:
        login = {"authentication.method": "BASIC", "authentication.password.file": str(users)}
        async with running(**login, **{"ssl.keystore.location": str(keys)}):
            pass

    run(test)
    for path, what in ((users, "passwords"), (keys, "a private key")):
        assert (f"{path} holds {what}, and everybody on this machine may read" in caplog.text) == told


def test_no_piece_of_an_answer_waits_for_the_one_before_it() -> None:
    """Whatever asyncio accepts on the service's sockets is without Nagle's algorithm."""

    async def test() -> None:
        accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            accepted.set_result(bool(option))
            writer.close()

        sock = bound(Listener("http", "127.0.0.1", 0))
        async with await asyncio.start_server(connected, sock=sock):
            _, writer = await asyncio.open_connection(*sock.getsockname())
            assert await accepted
            writer.close()

    run(test)


def test_encrypted_listeners_and_certificates_of_clients(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    keys = tmp_path / "keys.pem"
    keys.write_text(made.key.read_text() + made.certificate.read_text())
    properties = {"listeners": "https://127.0.0.1:0", "ssl.keystore.location": str(keys)}
    trusting = ssl.create_default_context(cafile=made.certificate)

    async def status(service: Service, context: ssl.SSLContext) -> int:
        port = service.listeners[0].port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return int(answer.split()[1])

    async def test() -> None:
        async with running(**properties) as service:
            assert await status(service, trusting) == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await status(service, ssl.create_default_context())
        more = {"ssl.client.authentication": "REQUIRED", "ssl.truststore.location": str(made.certificate)}
        async with running(**properties, **more) as service:
            with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
                await status(service, ssl.create_default_context(cafile=made.certificate))
            trusting.load_cert_chain(made.certificate, made.key)
            assert await status(service, trusting) == 200

    run(test)


STORES = Path(__file__).parents[1] / "tls" / "data"


@pytest.mark.parametrize(
    ("keys", "passwords"),
    [
        ("broker.p12", {"ssl.keystore.password": "changeit"}),
        ("broker.jks", {"ssl.keystore.password": "changeit", "ssl.key.password": "keypass12"}),
        ("encrypted.pem", {"ssl.key.password": "keypass12"}),
    ],
)
@pytest.mark.parametrize("trusted", ["trust.jks", "trust.p12", "ca.pem"])
def test_key_and_trust_stores_have_any_form(keys: str, passwords: dict[str, str], trusted: str) -> None:
    trust = {"ssl.truststore.location": str(STORES / trusted), "ssl.truststore.password": "changeit"}
    settings = WebSettings.of({"ssl.keystore.location": str(STORES / keys), **passwords, **trust}, "https://x")
    found = settings.tls().get_ca_certs()
    assert [dict(pair[0] for pair in each["subject"])["commonName"] for each in found] == ["Test CA"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ssl.keystore.password": "wrong"}, "ssl.keystore.location"),
        ({"ssl.keystore.location": "/not/there"}, "ssl.keystore.location"),
        ({"ssl.truststore.location": str(STORES / "trust.jks"), "ssl.truststore.password": "x"}, "ssl.truststore"),
    ],
)
def test_a_store_that_cannot_be_read_is_named(given: dict[str, str], told: str) -> None:
    good = {"ssl.keystore.location": str(STORES / "broker.p12"), "ssl.keystore.password": "changeit"}
    with pytest.raises(ConfigError, match=told):
        WebSettings.of({**good, **given}, "https://x").tls()


def test_a_body_is_only_so_deep() -> None:
    async def test() -> None:
        async with running() as service:
            for deep, status in ((DEEPEST, 200), (DEEPEST + 1, 400), (100_000, 400)):
                body = b'{"a":' * deep + b"1" + b"}" * deep
                assert (await ask(service, "POST", "/things", body))[0] == status

    run(test)


async def half_sent(service: Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request of whose body one byte is missing, and which is under way."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.listeners[0].port)
    writer.write(b"POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{")
    return reader, writer


def test_a_body_that_does_not_come_in_is_given_up() -> None:
    async def test() -> None:
        async with running(**{"request.body.timeout.ms": "20"}) as service:
            reader, writer = await half_sent(service)
            answer = await asyncio.wait_for(reader.read(), 30)
            assert answer.startswith(b"HTTP/1.1 408") and b"request.body.timeout.ms" in answer
            writer.close()

    run(test)


def test_how_it_is_can_be_asked_however_many_requests_are_under_way() -> None:
    async def test() -> None:
        async with running(**{"max.concurrent.requests": "1"}) as service:
            _, writer = await half_sent(service)
            asked = ["/things/a/parts/9", "/health", "/ready"]
            assert [(await ask(service, "GET", path))[0] for path in asked] == [503, 200, 200]
            writer.close()

    run(test)
