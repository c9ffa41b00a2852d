"""Spark's own Kafka connector (JVM) as a peer: its jars, fetched by Maven at the first use and kept in the cache.

The versions are those seen to work with PySpark 4.3; the token provider of the connector's own version is not published
everywhere, an older one does the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.setup import apt_install, is_root
from tests.peers.maven import PeerMissing, cache

VERSION = "4.2.0"
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


def jars() -> list[Path]:
    """The connector's jars, for `spark.jars`."""
    folder = cache() / f"spark-connector-{VERSION}"
    if not folder.exists():
        _fetch(folder)
    return sorted(folder.glob("*.jar"))


def spark_jars() -> str:
    """The value of the setting `spark.jars`."""
    return ",".join(map(str, jars()))


def _fetch(folder: Path) -> None:
    if shutil.which("mvn") is None and is_root():
        apt_install("maven")
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing(
            f"the jars of Spark's Kafka connector are not in {folder} and `mvn` is not installed to fetch them: "
            "install Maven (Debian: apt-get install maven), or copy the jars there"
        )
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    print(f"fetching Spark's Kafka connector {VERSION} into {folder}", file=sys.stderr)
    for artifact in ARTIFACTS:
        fetch = [maven, "-q", "-B", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"]
        copy = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={partial}"]
        for command in (fetch, copy):
            subprocess.run(command, cwd=partial, check=True, stdout=subprocess.DEVNULL)
    partial.rename(folder)
