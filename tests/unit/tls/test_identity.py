"""A private key never lies on a disk where there are files in memory; where there are none, nobody else may read it."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import pytest

from moldau.tls.identity import load_identity

DATA = Path(__file__).parent / "data"
IDENTITY = (DATA / "broker.pem").read_text()


def new_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def open_files() -> list[str]:
    return os.listdir("/proc/self/fd")


def test_a_key_does_not_touch_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was made")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    before = len(open_files())
    load_identity(new_context(), IDENTITY, "")
    load_identity(new_context(), (DATA / "encrypted.pem").read_text(), "keypass12")
    for wrong in ("no key", IDENTITY[: len(IDENTITY) // 2]):
        with pytest.raises(ssl.SSLError):
            load_identity(new_context(), wrong, "")
    assert len(open_files()) == before


@pytest.mark.parametrize("lacks", ["the call", "the right", "/proc"])
def test_where_there_are_no_files_in_memory_it_is_one_that_nobody_else_reads(
    lacks: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError("not here")

    if lacks == "the call":
        monkeypatch.delattr(os, "memfd_create")
    elif lacks == "the right":
        monkeypatch.setattr(os, "memfd_create", refuse)
    else:
        monkeypatch.setattr(os.path, "exists", lambda path: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []

    class Watching(ssl.SSLContext):
        def load_cert_chain(self, certfile: str, *rest: object, **more: object) -> None:  # type: ignore[override]
            modes.append(os.stat(certfile).st_mode & 0o777)
            super().load_cert_chain(certfile, *rest, **more)  # type: ignore[arg-type]

    load_identity(Watching(ssl.PROTOCOL_TLS_SERVER), IDENTITY, "")
    with pytest.raises(ssl.SSLError):
        load_identity(Watching(ssl.PROTOCOL_TLS_SERVER), "no key", "")
    assert modes == [0o600, 0o600]
    assert list(tmp_path.iterdir()) == []
