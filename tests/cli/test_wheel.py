"""What `pip install` of the built wheel gives, in an environment that holds the wheel and its dependencies alone.

The environment borrows the installed dependencies instead of fetching them again, and nothing else: what belongs to an
extra is not there.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from moldau.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("src", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
SECONDS = 300.0
READY_ADDRESS = re.compile(r"PLAINTEXT://([^\s,]+:\d+)")

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as a build leaves its traces in the tree."""
    copy, target = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, copy / part, ignore=left_out)
        else:
            shutil.copy(source, copy / part)
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", target, copy)
    (built,) = target.glob("*.whl")
    return built


def pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs that the installation made."""
    place = tmp_path_factory.mktemp("environment") / "clean"
    venv.create(place, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    borrow_dependencies(packages)
    pip("--python", place / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    return place / "bin"


def borrow_dependencies(packages: Path) -> None:
    ours = Path(sysconfig.get_path("purelib"))
    for name in dependencies():
        files = importlib.metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(ours / top)


def dependencies() -> set[str]:
    """What the wheel requires, and what that requires, without any extra."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = requirement.name.lower()
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        wanted += importlib.metadata.distribution(name).requires or []
    return found


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=SECONDS, env=clean_variables(), cwd="/"
    )


def clean_variables() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MOLDAU", "_MOLDAU"))}


@pytest.fixture(scope="session")
def address(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that runs from the installed wheel."""
    data = tmp_path_factory.mktemp("wheel-broker")
    settings = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={data}")
    with (data / "log").open("w") as log:
        process = subprocess.Popen(
            [str(programs / "moldau"), "broker", "start", *settings],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=clean_variables(),
        )
    assert process.stdout is not None
    found = next((ready for line in process.stdout if (ready := READY_ADDRESS.search(line))), None)
    assert found is not None, (data / "log").read_text()
    yield found.group(1)
    process.terminate()
    assert process.wait(SECONDS) == 0
    process.stdout.close()


def test_the_package_is_the_wheels(programs: Path) -> None:
    shown = run(programs / "python", "-c", "import moldau; print(moldau.__file__)")
    assert shown.stdout.startswith(str(programs.parent)), shown
    assert run(programs / "moldau", "--version").stdout == f"moldau {VERSION}\n"


def test_every_program_is_there_and_starts(programs: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert sorted(name for name in scripts if not (programs / name).exists()) == []
    assert run(programs / "moldau", "--help").returncode == 0


def test_records_go_in_and_come_out(programs: Path, address: str) -> None:
    moldau = programs / "moldau"
    assert run(moldau, "topic", "create", "orders", "-b", address).stdout == "created topic orders\n"
    assert run(moldau, "produce", "orders", "hello", "-b", address).returncode == 0
    assert run(moldau, "consume", "orders", "-b", address, "--format", "%v\\n").stdout == "hello\n"
    assert "orders" in run(programs / "kafka-topics.sh", "--bootstrap-server", address, "--list").stdout
    assert run(moldau, "cluster", "health", "-b", address).returncode == 0


def test_what_belongs_to_an_extra_says_so(programs: Path) -> None:
    refused = run(programs / "moldau", "demo")
    assert refused.returncode != 0
    assert "moldau[demo]" in refused.stderr and "Traceback" not in refused.stderr
    refused = run(programs / "python", "-c", "from moldau.spark import session; session('x', 'local[1]')")
    assert refused.returncode != 0
    assert "moldau[spark]" in refused.stderr.splitlines()[-1]
