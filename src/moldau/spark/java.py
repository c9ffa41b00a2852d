"""Finds the Java that Spark runs on, or says how to get one.

Looked at, in this order: `JAVA_HOME`, `java` on the PATH, and what `make setup` or the install-jdk package put into the
user's cache. The first that is new enough is taken.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

MINIMUM_VERSION = 17
HOW_TO_INSTALL = (
    "install it with your system's packages (Debian, Ubuntu: apt install openjdk-17-jre-headless; Fedora: dnf install "
    "java-21-openjdk-headless; macOS: brew install openjdk@17), or without root: pip install install-jdk, then "
    "python -c \"import jdk; print(jdk.install('17', jre=True, path='{cache}'))\""
)


class JavaMissing(RuntimeError):
    """No usable Java; the text says what was found and how to install one."""


def find_java_home(environment: Mapping[str, str], version_of: Callable[[Path], int] | None = None) -> Path:
    """The home of the first Java of at least version 17; raises JavaMissing with the cause and the remedy."""
    ask = version_of or installed_version
    too_old = []
    for java in _candidates(environment):
        version = ask(java)
        if version >= MINIMUM_VERSION:
            return java.resolve().parent.parent
        too_old.append(f"{java} is " + (f"Java {version}" if version else "not usable"))
    found = "; ".join(too_old) or "JAVA_HOME is not set and there is no java on the PATH"
    remedy = HOW_TO_INSTALL.format(cache=cache_folder(environment))
    raise JavaMissing(f"Spark needs Java {MINIMUM_VERSION} or newer ({found}): {remedy}")


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(on_path)
    yield from sorted(cache_folder(environment).glob("*/bin/java"))
    yield from sorted(cache_folder(environment).glob("*/Contents/Home/bin/java"))  # macOS bundles


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where a Java of one's own is kept, without root."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "moldau" / "java"


def installed_version(java: Path) -> int:
    """The major version that this program says it has; 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_version(done.stderr)


def parse_version(text: str) -> int:
    """The major version in the words of `java -version`; `1.8.0` is 8."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return 0
    major, minor = match.groups()
    return int(minor or 0) if major == "1" else int(major)
