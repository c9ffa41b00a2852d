"""Make `.venv` with everything the project needs, and say what is installed where.

Standard library only: it runs before anything else exists. Each stage remembers a hash of what it was made from, so a
second call returns at once and a changed file repeats only its own stage. What the Python packages cannot bring (a C
compiler, Java, kcat) comes from the system, from Debian's packages where we are root, or from a Python package that
carries it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
STAMPS = VENV / "stamps"
USER_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moldau"
JAVA_VERSION = 17

MINIMUM_PYTHON = (3, 11)
KERBEROS = "gssapi"


def main() -> int:
    if sys.version_info < MINIMUM_PYTHON:
        return fail(f"Python {'.'.join(map(str, MINIMUM_PYTHON))} or newer is needed, this is {sys.version.split()[0]}")
    with one_at_a_time():
        stage("packages", ["pyproject.toml", "constraints.txt"], install_packages)
        stage("kernel", ["pyproject.toml", "setup.py", *kernel_sources()], install_project)
        stage("tools", [], install_tools)
    return 0


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two `make` calls side by side must not build the same environment."""
    ROOT.joinpath("build").mkdir(exist_ok=True)
    with ROOT.joinpath("build", "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stage(name: str, inputs: Sequence[str], action: Callable[[], None]) -> None:
    digest = hashlib.sha256(f"{ROOT} {sys.version_info[:2]}".encode())
    for path in [Path(__file__), *(ROOT / item for item in inputs)]:
        digest.update(path.read_bytes() if path.exists() else b"absent")
    stamp = STAMPS / name
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    action()
    STAMPS.mkdir(exist_ok=True)
    stamp.write_text(digest.hexdigest())


# -- Python packages ----------------------------------------------------------------------------------------------


def install_packages() -> None:
    say(f"making .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(STAMPS, ignore_errors=True)
    make_venv()
    say("installing the pinned packages of constraints.txt")
    pip("install", "--upgrade", "pip", "setuptools")
    names = run([str(BIN / "python"), "-c", LIST_REQUIREMENTS], capture=True).split("\n")
    pip("install", *(name for name in filter(None, names) if not name.startswith(KERBEROS)))
    if can_build_kerberos():
        pip("install", *(name for name in names if name.startswith(KERBEROS)))
    else:
        say("the headers of Kerberos are missing: its tests are left out; only root can install them (libkrb5-dev)")


def can_build_kerberos() -> bool:
    """It comes as source only. The servers are for the tests."""
    if all(map(shutil.which, ("krb5-config", "krb5kdc", "kadmin.local"))):
        return True
    return is_root() and apt_install("libkrb5-dev", "krb5-kdc", "krb5-admin-server", "krb5-user")


LIST_REQUIREMENTS = """
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"].values()
wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
print(*(name for name in wanted if not name.startswith("moldau")), sep="\\n")
"""


def make_venv() -> None:
    same_version = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if (BIN / "python").exists() and run_quietly([str(BIN / "python"), "-c", same_version]):
        return
    command = [base_python(), "-m", "venv", "--clear", str(VENV)]
    if run_quietly(command):
        return
    say("this Python has no ensurepip")
    if is_root() and apt_install("python3-venv") and run_quietly(command):
        return
    if run_quietly([*command, "--without-pip"]) and run_quietly(
        [base_python(), "-m", "pip", "--python", str(BIN / "python"), "install", "pip"]
    ):
        return
    sys.exit(fail("cannot make a virtual environment: install the python3-venv package of your system, then repeat"))


def base_python() -> str:
    """The interpreter outside of any environment: .venv cannot be made anew by the Python inside it."""
    return getattr(sys, "_base_executable", None) or sys.executable


def pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    constraints = ["-c", str(ROOT / "constraints.txt")]
    run([str(BIN / "python"), "-m", "pip", "--quiet", *arguments, *constraints], environment=environment)


# -- the project and its compiled kernel --------------------------------------------------------------------------


def install_project() -> None:
    say("installing moldau (editable) with its compiled kernel")
    for stale in (ROOT / "src/moldau/kernels").glob("_native.*.so"):
        stale.unlink()
    pip("install", "--no-build-isolation", "--no-deps", "--editable", ".", environment=os.environ | compiler_settings())
    built = any((ROOT / "src/moldau/kernels").glob("_native.*.so"))
    if not built and (ROOT / "src/moldau/kernels/_native.c").exists():
        say("the compiled kernel could not be built: moldau works with its pure-Python twin, slowly")


def kernel_sources() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "src/moldau/kernels").glob("*.[ch]"))


def compiler_settings() -> dict[str, str]:
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if is_root() and not (has_compiler() and headers.exists()):
        apt_install("build-essential", "python3-dev")
    if has_compiler():
        return {}
    say("no C compiler here: using the one in the ziglang package")
    pip("install", "ziglang")
    zig = f"{shlex.quote(str(BIN / 'python'))} -m ziglang cc"
    return {"CC": zig, "LDSHARED": f"{zig} -shared"}


def has_compiler() -> bool:
    return bool(os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"))


# -- tools that are not Python ------------------------------------------------------------------------------------


def install_tools() -> None:
    install_java()
    for program, package, purpose in (
        ("kcat", "kcat", "a client in the tests"),
        ("mvn", "maven", "it fetches Apache Kafka for the tests and benchmarks that need it"),
    ):
        if not shutil.which(program) and not (is_root() and apt_install(package)):
            say(f"{program} is missing ({purpose}); only root can install it, from the package {package}")


def install_java() -> None:
    """Apache Kafka, the judge of the conformance tests and the peer of the benchmarks, runs on it."""
    link = BIN / "java"
    link.unlink(missing_ok=True)
    if not usable_java() and not (is_root() and apt_install(f"openjdk-{JAVA_VERSION}-jre-headless")):
        say(f"installing Java {JAVA_VERSION} into {USER_CACHE} with the install-jdk package")
        code = f"import jdk; print(jdk.install({str(JAVA_VERSION)!r}, jre=True, path={str(USER_CACHE / 'java')!r}))"
        done = subprocess.run([str(BIN / "python"), "-c", code], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            say(f"install-jdk: {done.stderr.strip().splitlines()[-1]}")
    if java := usable_java():
        link.symlink_to(java)
    else:
        say(f"Java {JAVA_VERSION} could not be installed: what needs Apache Kafka will not run")


def usable_java() -> Path | None:
    return next((java for java in java_candidates() if java_version(java) >= JAVA_VERSION), None)


def java_candidates() -> list[Path]:
    places = []
    if os.environ.get("JAVA_HOME"):
        places.append(Path(os.environ["JAVA_HOME"]) / "bin/java")
    if found := shutil.which("java"):
        places.append(Path(found))
    places.extend(sorted(USER_CACHE.glob("java/*/bin/java")))
    return [place.absolute() for place in places if place.exists() and place.absolute().parent != BIN]


def java_version(java: Path) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', answer)
    return int(match.group(1)) if match else 0


# -- running things -----------------------------------------------------------------------------------------------


def is_root() -> bool:
    return os.geteuid() == 0


def apt_install(*packages: str) -> bool:
    if not shutil.which("apt-get"):
        return False
    say(f"installing from Debian's packages: {' '.join(packages)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    return run_quietly(install, environment) or (
        run_quietly(["apt-get", "update", "--quiet"], environment) and run_quietly(install, environment)
    )


def run(command: Sequence[str], *, environment: dict[str, str] | None = None, capture: bool = False) -> str:
    result = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, text=True, stdout=subprocess.PIPE if capture else None
    )
    if result.returncode != 0:
        sys.exit(fail(f"{shlex.join(command)} ended with code {result.returncode}"))
    return result.stdout or ""


def run_quietly(command: Sequence[str], environment: dict[str, str] | None = None) -> bool:
    result = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True)
    return result.returncode == 0


def say(message: str) -> None:
    print(f"setup: {message}", flush=True)


def fail(message: str) -> int:
    print(f"setup: {message}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
