"""TLS in front of a broker: certificates made on the spot, and a proxy that ends the encryption."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """A self-signed certificate for 127.0.0.1, which is its own authority."""

    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    made = Certificates(folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return made


@contextlib.contextmanager
def tls_proxy(target: str, certificates: Certificates, *, ask_client: bool = False) -> Iterator[str]:
    """Gives the address of a TLS port; what comes in there goes to the target in the clear, and back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.certificate)
    host, port = target.rsplit(":", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener, _loop_in_a_thread() as loop:

        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            try:
                broker_reader, broker_writer = await asyncio.open_connection(host, int(port))
                try:
                    await asyncio.gather(_copy(reader, broker_writer), _copy(broker_reader, writer))
                finally:
                    broker_writer.transport.abort()
            except OSError:
                pass
            finally:
                writer.transport.abort()

        starting = asyncio.start_server(serve, sock=listener, ssl=context)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        loop.call_soon_threadsafe(server.close)


async def _copy(source: StreamReader, target: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
        target.close()


@contextlib.contextmanager
def _loop_in_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_the_rest(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_the_rest() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)  # what was aborted is closed in the next turn
