"""Files with secrets that everybody on this machine may read or write: nothing is refused for it, but it is told."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: How the names of settings end that hold a secret, whoever they are for.
_SECRET: Final = re.compile(r"(password|secret|jaas\.config|user\.info|keystore\.key|\btoken)$", re.IGNORECASE)


def warning_of_readers(path: Path, what: str) -> str | None:
    try:
        is_open = path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)
    except OSError:  # whoever needs it says so
        return None
    return f"{path} holds {what}, and everybody on this machine may read or write it: chmod 600 it" if is_open else None


def warning_of_properties(path: Path, properties: Mapping[str, str]) -> str | None:
    """Of a file that says this."""
    has_secrets = any(_SECRET.search(name) and text.strip() for name, text in properties.items())
    return warning_of_readers(path, "passwords") if has_secrets else None
