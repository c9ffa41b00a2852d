"""Names that no other test uses, on a broker that many share."""

from __future__ import annotations

import os

LONGEST = 120


def own_name(test: str, longest: int = LONGEST) -> str:
    """For the topic or group of a test; workers that share a broker get different ones."""
    letters = "".join(c if c.isalnum() else "-" for c in test)
    return f"{letters[:longest]}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}"
