"""The `moldau` command in this process: the entry that the installed program calls, with its streams and environment
replaced. A process of its own costs a third of a second, this a few milliseconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

from moldau.cli.main import run as run_in_process

# Below something that is no folder nothing can be, nor be written.
NO_PROFILES = f"{os.devnull}/profiles.toml"


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What `--output json` printed."""
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of a plain table's lines, without the headings."""
        assert self.code == 0, self
        return [line.split() for line in self.out.splitlines()[1:]]

    @property
    def complaint(self) -> str:
        """The one line that a command ends with when something is wrong."""
        assert self.code != 0, self
        lines = self.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("moldau: "), self
        assert "Traceback" not in self.err and "fault of this command" not in self.err
        return lines[0].removeprefix("moldau: ")


def run(*arguments: object, stdin: str = "", environment: Mapping[str, str] | None = None) -> Ran:
    """One command line; a SystemExit counts as the end of the process."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")),
        _environment(environment or {}),
    ):
        try:
            code = run_in_process([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    out.flush()
    return Ran(code, out.buffer.getvalue().decode(errors="surrogateescape"), err.getvalue())


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Without what the person who runs the tests has set for their own clusters."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MOLDAU_", "_MOLDAU_"))}
    with mock.patch.dict(os.environ, {**kept, "MOLDAU_CONFIG": NO_PROFILES, **changes}, clear=True):
        yield
