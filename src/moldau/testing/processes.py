"""What runs for a test: processes of its own, which end with the test run, and what somebody else runs."""

from __future__ import annotations

import ctypes
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, Generic, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from moldau.cli.embedded import Embedded

P = ParamSpec("P")
T = TypeVar("T")
Process = TypeVar("Process", bound="Embedded")

PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None)
_lasting = ThreadPoolExecutor(1, "moldau-testing")


def end_with_parent() -> None:
    """Even a test run that is killed leaves nothing behind (Linux). The parent is the thread that forked: see
    `in_lasting_thread`."""
    if hasattr(_libc, "prctl"):
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def in_lasting_thread(start: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What starts processes; they end with the run, and not with the thread that happens to ask for them."""
    if threading.current_thread() is threading.main_thread():
        return start(*args, **kwargs)
    return _lasting.submit(start, *args, **kwargs).result()


class GoesOn:
    """What somebody else runs: the end of the block means nothing to it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It goes on."""


class OwnProcess(Generic[Process]):
    """A process for the length of a block. Without a `folder` its data lies in a temporary one, removed at the end."""

    noun: ClassVar[str]

    def __init__(self, settings: Mapping[str, object], folder: Path | None = None) -> None:
        self._settings = dict(settings)
        self._temporary = None if folder is not None else tempfile.TemporaryDirectory(prefix="moldau-")
        self.folder = folder if folder is not None else Path(self._temporary.name)  # type: ignore[union-attr]
        self._process: Process | None = None

    def _made(self) -> Process:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = self._made()
        in_lasting_thread(self._process.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
        if self._temporary is not None:
            self._temporary.cleanup()

    def stop(self) -> None:
        """Ends it in order, as for maintenance: what is under way is finished."""
        self._started().stop()

    def kill(self) -> None:
        """Ends it without any warning, as a crash would."""
        self._started().kill()

    def start(self) -> None:
        """After `stop` or `kill`: on the same address, with the same data."""
        in_lasting_thread(self._started().start)

    def log(self) -> str:
        """What it has logged so far."""
        return self._started().log_file.read_text(errors="replace")

    def _started(self) -> Process:
        if self._process is None:
            raise RuntimeError(f"this {self.noun} has not been started: use it in a with block")
        return self._process
