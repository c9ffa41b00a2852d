"""TLS in front of a broker: certificates made on the spot, and a proxy that ends the encryption."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
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
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, context, target), daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def _accept(listener: socket.socket, context: ssl.SSLContext, target: str) -> None:
    host, port = target.rsplit(":", 1)
    with contextlib.suppress(OSError):
        while True:
            plain, _ = listener.accept()
            with contextlib.suppress(OSError):
                threading.Thread(target=_serve, args=(plain, context, (host, int(port))), daemon=True).start()


def _serve(plain: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    """One request, one answer at a time: enough for a client that does not pipeline."""
    with (
        contextlib.suppress(OSError),
        plain,
        context.wrap_socket(plain, server_side=True) as client,
        socket.create_connection(target) as broker,
    ):
        answers = threading.Thread(target=_copy, args=(broker, client), daemon=True)
        answers.start()
        _copy(client, broker)
        broker.shutdown(socket.SHUT_RDWR)
        answers.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
