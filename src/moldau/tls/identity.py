"""A private key with its certificates into an SSL context, from text: Python reads them from files only."""

from __future__ import annotations

import os
import ssl
import tempfile


def load_identity(context: ssl.SSLContext, text: str, password: str | None) -> None:
    """The text stands in a file for this moment: in memory where the system has such files, else on disk, readable by
    nobody else. Raises SSLError, OSError."""
    handle = _memory_file()
    if handle is not None:
        with open(handle, "w") as file:
            file.write(text)
            file.flush()
            context.load_cert_chain(_path_of(handle), password=password)
        return
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with open(handle, "w") as file:
            file.write(text)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def _memory_file() -> int | None:
    if not hasattr(os, "memfd_create"):
        return None
    try:
        handle = os.memfd_create("identity")
    except OSError:
        return None
    if os.path.exists(_path_of(handle)):
        return handle
    os.close(handle)
    return None


def _path_of(handle: int) -> str:
    return f"/proc/self/fd/{handle}"
