"""Moldau's broker as a process, started through its command line like any user's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.process import BrokerProcess

READY_ADDRESS = re.compile(rb"PLAINTEXT://([^\s,]+:\d+)[^\n]*\n")


class Broker(BrokerProcess):
    """`moldau broker start`; the address comes from its ready line. Port 0 lets the kernel choose, once."""

    name = "Moldau"

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None, port: int = 0) -> None:
        super().__init__(directory, settings)
        self._port = port

    def _command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": self.data,
            **self.settings,
        }
        command = [sys.executable, "-m", "moldau", "broker", "start"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def _find_address(self) -> str | None:
        ready = READY_ADDRESS.search(self._file("stdout").read_bytes())
        if ready is None:
            return None
        address = ready.group(1).decode()
        self._port = int(address.rsplit(":", 1)[1])
        return address
