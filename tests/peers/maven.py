"""Jars from Maven's repository, kept in ~/.cache/moldau/peers, or where MOLDAU_PEERS says.

Maven fetches them, with whatever mirror its settings name. Set-up installs it where it may.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts.setup import apt_install, is_root


class PeerMissing(RuntimeError):
    """The peer cannot be had on this machine; the message says what to do."""


class Artifact(NamedTuple):
    group: str
    name: str
    version: str
    alone: bool = False
    """Without what it says that it needs: a bundle that holds more than it says."""


def cache() -> Path:
    return Path(os.environ.get("MOLDAU_PEERS") or Path.home() / ".cache" / "moldau" / "peers")


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Tests run side by side, and ask for the same at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder that is filled beside and renamed: an interrupted fetch must not pass for a whole one."""
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        yield partial
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def jars(folder: Path, artifacts: Sequence[Artifact]) -> Path:
    """The folder with these jars and what they need, filled at the first use."""
    if folder.exists():
        return folder
    with one_at_a_time(folder):
        if not folder.exists():
            print(f"fetching {', '.join(each.name for each in artifacts)} into {folder}", file=sys.stderr)
            with made_whole(folder) as partial:
                _fetch(partial, artifacts)
    return folder


def can_fetch() -> bool:
    return shutil.which("mvn") is not None or is_root()


def distribution(folder: Path, artifact: Artifact) -> Path:
    """The folder of what is packed in the artifact's file `all.tar.gz`, filled at the first use."""
    if folder.exists():
        return folder
    with one_at_a_time(folder):
        if not folder.exists():
            print(f"fetching {artifact.name} into {folder}", file=sys.stderr)
            with made_whole(folder) as partial:
                coordinates = f"{artifact.group}:{artifact.name}:{artifact.version}:tar.gz:all"
                copy = [_maven(folder, artifact.name), "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}"]
                copy.append(f"-DoutputDirectory={partial}")
                subprocess.run(copy, cwd=partial, check=True, stdout=subprocess.DEVNULL)
                (archive,) = partial.glob("*.tar.gz")
                subprocess.run(["tar", "-xzf", archive.name], cwd=partial, check=True)
                archive.unlink()
    return folder


def _fetch(folder: Path, artifacts: Sequence[Artifact]) -> None:
    _copy_dependencies(_maven(folder, ", ".join(each.name for each in artifacts)), folder, artifacts)


def _maven(folder: Path, wanted: str) -> str:
    """Maven's program, to put what is wanted there."""
    if shutil.which("mvn") is None and is_root():
        apt_install("maven")
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing(
            f"{wanted} is not in {folder.parent} and `mvn` is not installed to fetch it: install Maven (Debian: "
            "apt-get install maven), or copy what it would fetch there"
        )
    return maven


def _copy_dependencies(maven: str, folder: Path, artifacts: Sequence[Artifact]) -> None:
    project = folder / "pom.xml"
    project.write_text(_project_file(artifacts))
    copy = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    subprocess.run(copy, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    project.unlink()


def _project_file(artifacts: Sequence[Artifact]) -> str:
    nothing = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{each.group}</groupId><artifactId>{each.name}</artifactId>"
        f"<version>{each.version}</version>{nothing if each.alone else ''}</dependency>"
        for each in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>moldau</groupId><artifactId>peer</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
