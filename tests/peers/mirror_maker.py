"""Apache Kafka's MirrorMaker 2 as a process, from its Maven artifacts."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers.apache_kafka import java_program
from tests.peers.java_programs import MIRROR
from tests.support.process import die_with_parent

CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"


class MirrorMaker:
    def __init__(self, folder: Path, settings: Mapping[str, str], heap: str = "512m") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "mirror-maker.log"
        self._config = folder / "mirror-maker.properties"
        self._config.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        options = [f"-Xmx{self._heap}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = [java_program(), *options, "-cp", f"{MIRROR.folder()}/*", CLASS, str(self._config)]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, preexec_fn=die_with_parent)  # noqa: PLW1509
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """In order, so that it stores its positions."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
