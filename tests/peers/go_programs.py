"""Go programs of our own (tests/peers/go, one folder each): built at the first use, kept where the peers' jars are."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.peers import maven
from tests.peers.maven import PeerMissing

SOURCES = Path(__file__).with_name("go")
SECONDS = 300.0


def program(name: str) -> Path:
    digest = hashlib.sha256()
    for path in sorted((SOURCES / name).iterdir()):
        digest.update(path.read_bytes())
    folder = maven.cache() / "programs" / f"go-{name}-{digest.hexdigest()[:16]}"
    if folder.exists():
        return folder / name
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise PeerMissing("`go` is not installed, which builds the client in Go: see https://go.dev/doc/install")
    with maven.one_at_a_time(folder):
        if not folder.exists():
            with maven.made_whole(folder) as partial:
                subprocess.run([go, "build", "-o", str(partial / name), "."], cwd=SOURCES / name, check=True)
    return folder / name


def run(name: str, *arguments: object, seconds: float = SECONDS) -> list[str]:
    """The lines that the program prints; a failure shows both streams."""
    done = subprocess.run(
        [str(program(name)), *map(str, arguments)], capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}")
    return done.stdout.splitlines()
