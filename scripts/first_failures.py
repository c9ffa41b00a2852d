"""What fails at first, written down: `make test` gives a test a second chance, and races of our own would hide there.

    python scripts/first_failures.py [options of pytest …]

runs the tests, then what failed once more, alone. Every first failure goes into build/first-failures.txt and is printed
at the end. The names in tests/known_first_failures.tsv, each with its reason, may be there; a new one fails the next
run (tests/tidy/test_first_failures.py), although it passed the second time: mend it, or write down why it is somebody
else's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
WRITTEN: Final = ROOT / "build" / "first-failures.txt"
WRITTEN_BEFORE: Final = ROOT / "build" / "first-failures-before.txt"
KNOWN: Final = ROOT / "tests" / "known_first_failures.tsv"
PLUGIN: Final = "tests.support.first_failures"
AGAIN: Final = ("--last-failed", "--last-failed-no-failures", "none")
WITH_WORKERS: Final = ("-n", "--numprocesses")


def read_known(text: str) -> dict[str, str]:
    """Patterns of names with their reasons: `name<TAB>reason`; lines that begin with # are for people."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, tab, reason = line.partition("\t")
        if not tab or not reason.strip():
            raise ValueError(f"{KNOWN.name}, line {number}: expected a name, a tab and a reason")
        found[name] = reason.strip()
    return found


def unknown(failed: Iterable[str], known: Mapping[str, str]) -> list[str]:
    return [name for name in failed if not any(fnmatchcase(name, literal(pattern)) for pattern in known)]


def literal(pattern: str) -> str:
    """The brackets of a test's parameters are meant as they stand; only * is a pattern."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def report(failed: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """What to say at the end."""
    if not failed:
        return ["Nothing failed at first."]
    lines = [f"First failures, also in {WRITTEN.relative_to(ROOT)}:"]
    new = unknown(failed, known)
    lines += [f"  {'new  ' if name in new else 'known'}  {name}" for name in failed]
    if new:
        count = f"{len(new)} of them not in {KNOWN.relative_to(ROOT)}, which fails the next run"
        lines.append(f"{count}: mend it, or write down whose it is.")
    return lines


def single(arguments: Sequence[str]) -> list[str]:
    """The second run is alone on the machine: without the workers of the first."""
    kept: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if argument in WITH_WORKERS:
            left = left[1:]
        elif not argument.startswith(("-n=", "--numprocesses=")):
            kept.append(argument)
    return kept


def main(arguments: Sequence[str]) -> int:
    WRITTEN.parent.mkdir(exist_ok=True)
    if WRITTEN.exists():
        WRITTEN.replace(WRITTEN_BEFORE)
    WRITTEN.write_text("")
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.call([*pytest, "-p", PLUGIN, "--first-failures", str(WRITTEN), *arguments], cwd=ROOT)
    failed = WRITTEN.read_text().splitlines()
    if code and failed:
        print('What failed is run once more, alone; see CONTRIBUTING.md, "Tests that fail once".', flush=True)
        code = subprocess.call([*pytest, *AGAIN, *single(arguments)], cwd=ROOT)
    print("", *report(failed, read_known(KNOWN.read_text())), sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
