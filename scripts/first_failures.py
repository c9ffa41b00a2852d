"""What fails at first, written down: `make test` gives a test a second chance, and races of our own would hide there.

    python scripts/first_failures.py [--ci] [options of pytest …]

runs the tests and tells the slowest twenty, then runs what failed once more, alone. Every first failure goes into
build/first-failures.txt and is printed at the end. The names in tests/known_first_failures.tsv, each with its reason,
may be there; a new one fails the next run (tests/tidy/test_run_before.py), although it passed the second time: mend it,
or write down why it is somebody else's.

What the tests leave in their temporary folder is told and kept likewise, before it is removed: build/left-over.txt,
against the patterns of tests/known_left_over.tsv.

A clean clone has no next run. There, with --ci or the variable CI, what is new is the last thing printed; it fails
nothing, since the second chance stands.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
WRITTEN: Final = ROOT / "build" / "first-failures.txt"
WRITTEN_BEFORE: Final = ROOT / "build" / "first-failures-before.txt"
KNOWN: Final = ROOT / "tests" / "known_first_failures.tsv"
LEFT_OVER: Final = ROOT / "build" / "left-over.txt"
LEFT_OVER_BEFORE: Final = ROOT / "build" / "left-over-before.txt"
KNOWN_LEFT_OVER: Final = ROOT / "tests" / "known_left_over.tsv"
PLUGIN: Final = "tests.support.first_failures"
SLOWEST: Final = "--durations=20"
#: A test that hangs where no signal reaches Python (in a library of C) ends its worker; others go on with the rest.
HANGING: Final = ("-o", "faulthandler_timeout=1000", "-o", "faulthandler_exit_on_timeout=true")
AGAIN: Final = ("--last-failed", "--last-failed-no-failures", "none")
WITH_WORKERS: Final = ("-n", "--numprocesses")
FOR_CI: Final = "--ci"
BAR: Final = "=" * 80


def read_known(text: str) -> dict[str, str]:
    """Patterns of names with their reasons: `name<TAB>reason`; lines that begin with # are for people."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, tab, reason = line.partition("\t")
        if not tab or not reason.strip():
            raise ValueError(f"line {number}: expected a name, a tab and a reason")
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


def unknown_left(names: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """Here the patterns are regular expressions, since most names are made up as they go: `spark-[0-9a-f-]{36}`."""
    return [name for name in names if not any(re.fullmatch(pattern, name) for pattern in known)]


def report_left(names: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """How many of each known kind, and what is new by its name."""
    if not names:
        return ["The tests left nothing in their temporary folder."]
    new = unknown_left(names, known)
    lines = [f"Left in the temporary folder: {len(names)}, {len(new)} not in {KNOWN_LEFT_OVER.relative_to(ROOT)}:"]
    fitting = {pattern: sum(re.fullmatch(pattern, name) is not None for name in names) for pattern in known}
    lines += [f"  known  {count:4}  {pattern}" for pattern, count in fitting.items() if count]
    return lines + [f"  new          {name}" for name in new]


def last_words(failed: Sequence[str], left: Sequence[str]) -> list[str]:
    """For those who see nothing but the end, and run no second time in this folder: what is new, and how much."""
    if not (failed or left):
        return []
    lines = [BAR, f"TO BE LOOKED INTO: {len(failed)} unknown first failures, {len(left)} unknown left-overs"]
    lines += [f"  failed at first  {name}" for name in failed]
    lines += [f"  left behind      {name}" for name in left]
    return [*lines, BAR]


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
    for_pytest = [argument for argument in arguments if argument != FOR_CI]
    begin_anew(WRITTEN, WRITTEN_BEFORE)
    begin_anew(LEFT_OVER, LEFT_OVER_BEFORE)
    with temporary_folder() as folder:
        code = run(for_pytest)
        left = sorted(os.listdir(folder))
        if code == 0:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"What the tests left is in {folder}.")
    LEFT_OVER.write_text("".join(f"{name}\n" for name in left))
    failed = WRITTEN.read_text().splitlines()
    known, known_left = read_known(KNOWN.read_text()), read_known(KNOWN_LEFT_OVER.read_text())
    print("", *report_left(left, known_left), "", *report(failed, known), sep="\n")
    if FOR_CI in arguments or "CI" in os.environ:
        print(*last_words(unknown(failed, known), unknown_left(left, known_left)), sep="\n", flush=True)
    return code


def begin_anew(written: Path, before: Path) -> None:
    """What the run before has written is kept beside, for the test of this one."""
    written.parent.mkdir(exist_ok=True)
    if written.exists():
        written.replace(before)
    written.write_text("")


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Where all processes of the tests put theirs, also those that are killed: it goes as a whole."""
    made = Path(tempfile.mkdtemp(prefix="moldau-tests-"))
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(made)
    try:
        yield made
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before


def run(arguments: Sequence[str]) -> int:
    pytest = [sys.executable, "-m", "pytest"]
    written = ("-p", PLUGIN, "--first-failures", str(WRITTEN))
    code = subprocess.call([*pytest, *written, SLOWEST, *HANGING, *arguments], cwd=ROOT)
    failed = WRITTEN.read_text().splitlines()
    if code and failed:
        print('What failed is run once more, alone; see CONTRIBUTING.md, "Tests that fail once".', flush=True)
        code = subprocess.call([*pytest, *AGAIN, *HANGING, *single(arguments)], cwd=ROOT)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
