"""What the long runs of `make chaos` found out, in `build/chaos.txt`: pytest keeps to itself what a test that passes
prints, so make shows that file at the end.
"""

from __future__ import annotations

from pathlib import Path

WRITTEN = Path(__file__).resolve().parent.parent.parent / "build" / "chaos.txt"


def report(text: str) -> None:
    """At once: a run that is killed has still told."""
    print(text)
    WRITTEN.parent.mkdir(exist_ok=True)
    with WRITTEN.open("a") as file:
        file.write(f"{text}\n")
