"""Every command that the books print runs as printed, or stands in the table of what is missing."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from moldau.cli.kafka.catalogue import LATER, TOOLS
from moldau.cli.kafka.entry import run
from tests.cli.books import (
    ACCESS_RULES,
    CONNECT_TOOLS,
    MIRROR_TOOLS,
    NAMED_BY_THE_INDEX,
    NOT_OF_KAFKA,
    REST_PROXY,
    RUN_AS_PRINTED,
    STARTS_AND_STOPS,
    STILL_MISSING,
    ZOOKEEPER_TOOLS,
    Printed,
)
from tests.support.admin import admin_client, topic_names
from tests.support.broker import Broker
from tests.support.process import BrokerProcess, free_port
from tests.support.raw import answers
from tests.support.waiting import wait_until

SECONDS = 120
# The console consumer waits for more until Ctrl-C; here it ends when it has printed all there is.
WAITS_FOR_MORE = ("kafka-console-consumer",)
TYPED = "hello world\n"


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs with the names of Kafka's, as `pip install` makes them."""
    folder = tmp_path_factory.mktemp("kafka") / "bin"
    folder.mkdir()
    for name in [*TOOLS, *LATER]:
        for path in (folder / name, folder / f"{name}.sh"):
            path.write_text(f"#!{sys.executable}\nfrom moldau.cli.kafka.entry import main\nmain()\n")
            path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with Broker(tmp_path_factory.mktemp("books"), {"node.id": 1}) as process:
        yield process


@pytest.fixture
def broker(running: BrokerProcess) -> BrokerProcess:
    """Without the topics and groups of the test before."""
    admin = admin_client(running.address)
    topics = [name for name in topic_names(admin) if not name.startswith("__")]
    for future in admin.delete_topics(topics).values() if topics else ():
        future.result()
    groups = [group.group_id for group in admin.list_consumer_groups().result().valid]
    for future in admin.delete_consumer_groups(groups).values() if groups else ():
        # One without offsets may have gone by itself meanwhile.
        with contextlib.suppress(KafkaException):
            future.result()
    return running


def typed(command: str, broker: BrokerProcess, bin_folder: Path, stdin: str) -> subprocess.CompletedProcess[str]:
    """A command line as printed, in a folder that looks like Kafka's; only the port is this broker's."""
    logs = bin_folder.parent / "logs"
    logs.unlink(missing_ok=True)
    logs.symlink_to(broker.data)
    line = command.replace("localhost:9092", broker.address)
    if Path(shlex.split(line)[0]).name.removesuffix(".sh") in WAITS_FOR_MORE:
        line += f" --max-messages {stdin.count(chr(10))}"
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=bin_folder if line.startswith("./kafka") else bin_folder.parent,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ
        | {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "MOLDAU_BOOTSTRAP_SERVERS": broker.address,
            "MOLDAU_CONFIG": os.devnull + "/none",
        },
    )


@pytest.mark.parametrize(
    "printed", [pytest.param(each, id=f"{each.section} {each.command}") for each in RUN_AS_PRINTED]
)
def test_a_printed_command_runs(printed: Printed, broker: BrokerProcess, bin_folder: Path) -> None:
    for command in printed.before:
        assert typed(command, broker, bin_folder, printed.stdin or TYPED).returncode == 0
    done = typed(printed.command, broker, bin_folder, printed.stdin or TYPED)
    assert done.returncode == printed.code, done
    assert printed.shows in done.stdout + done.stderr, done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", STILL_MISSING)
def test_a_missing_command_says_what_is_missing(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *arguments = shlex.split(command)
    name = Path(program).name
    assert run(name, arguments) == 1
    printed = capsys.readouterr()
    assert printed.err == f"{name.removesuffix('.sh')}: {LATER[name.removesuffix('.sh')].missing}\n"


def test_no_command_of_the_books_is_unaccounted_for() -> None:
    printed = [each.command for each in RUN_AS_PRINTED]
    printed += [*STILL_MISSING, *STARTS_AND_STOPS, *ZOOKEEPER_TOOLS, *ACCESS_RULES]
    printed += [*MIRROR_TOOLS, *REST_PROXY, *CONNECT_TOOLS]
    programs = {program_of(command) for command in printed}
    named = {name.removesuffix(".sh") for name in NAMED_BY_THE_INDEX}
    assert named - programs - set(NOT_OF_KAFKA) == set()
    assert programs <= set(TOOLS) | set(LATER)
    assert set(LATER) <= programs


def program_of(command: str) -> str:
    words = [word for word in shlex.split(command) if "=" not in word or "/" in word.partition("=")[0]]
    return Path(words[0]).name.removesuffix(".sh")


def test_a_broker_starts_and_stops_as_printed(bin_folder: Path, tmp_path: Path) -> None:
    """`bin/kafka-server-start.sh config/server0.properties` with the books' three settings, then kafka-server-stop.

    Without `zookeeper.connect`, which makes the broker a member of the cluster behind it."""
    port = free_port()
    config = bin_folder.parent / "config"
    config.mkdir(exist_ok=True)
    (config / "server0.properties").write_text(
        f"broker.id=977\nlisteners=PLAINTEXT://localhost:{port}\nlog.dir={tmp_path}/kafka-logs-0\n"
    )
    environment = os.environ | {"JMX_PORT": "9990"}
    with subprocess.Popen(
        ["bin/kafka-server-start.sh", "config/server0.properties", "--override", "num.partitions=3"],
        cwd=bin_folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as started:
        try:
            wait_until(lambda: answers(f"localhost:{port}"), "the broker answers", 60)
            stopped = subprocess.run(
                ["bin/kafka-server-stop.sh", "--node-id", "977"], cwd=bin_folder.parent, timeout=SECONDS, check=False
            )
            assert stopped.returncode == 0
            assert started.wait(SECONDS) == 0
            assert started.stderr is not None
            assert "JMX_PORT" in started.stderr.read()
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGKILL)


def test_nothing_to_stop(bin_folder: Path) -> None:
    done = subprocess.run(
        ["bin/kafka-server-stop", "--node-id", "123456"],
        cwd=bin_folder.parent,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "No kafka server to stop\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "USAGE: kafka-server-start"),
        (["missing.properties"], "missing.properties: no such file"),
        (["config/empty.properties", "--bogus"], "USAGE: kafka-server-start"),
    ],
)
def test_a_broker_that_cannot_start(arguments: list[str], complaint: str, bin_folder: Path) -> None:
    done = subprocess.run(
        [str(bin_folder / "kafka-server-start"), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
