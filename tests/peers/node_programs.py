"""Programs of our own for Node.js (tests/peers/node): their packages come from the npm registry that is set, once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.peers import maven
from tests.peers.maven import PeerMissing

SOURCES = Path(__file__).with_name("node")
SECONDS = 300.0


def folder() -> Path:
    """With the programs and, beside them, their packages."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    found = maven.cache() / "programs" / f"node-{digest.hexdigest()[:16]}"
    if found.exists():
        return found
    npm = shutil.which("npm")
    if npm is None:
        raise PeerMissing("`npm` is not installed, which fetches the clients for Node.js")
    with maven.one_at_a_time(found):
        if not found.exists():
            with maven.made_whole(found) as partial:
                for path in SOURCES.iterdir():
                    shutil.copy(path, partial)
                install = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
                subprocess.run(install, cwd=partial, check=True, capture_output=True)
    return found


def run(name: str, *arguments: object, seconds: float = SECONDS) -> list[str]:
    """The lines that the program prints; a failure shows both streams."""
    command = ["node", str(folder() / f"{name}.mjs"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}")
    return done.stdout.splitlines()
