"""The installed program as a process: streams, signals, a closed pipe, completion of names."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.traffic import commit
from tests.support.admin import create_topic

PROGRAM = Path(sys.executable).with_name("moldau")
SECONDS = 60.0


def environment(address: str, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MOLDAU_", "_MOLDAU", "COLUMNS"))}
    return kept | {"MOLDAU_BOOTSTRAP_SERVERS": address, "MOLDAU_CONFIG": "/dev/null/none"} | more


def moldau(address: str, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment(address, **more))


def test_results_on_one_stream_and_words_on_the_other(address: str, name: str) -> None:
    made = moldau(address, "topic", "create", name)
    assert (made.returncode, made.stdout, made.stderr) == (0, f"created topic {name}\n", "")
    listed = moldau(address, "topic", "list", name)
    assert listed.stdout == f"{'TOPIC'.ljust(len(name))}  PARTITIONS  REPLICAS\n{name}           1         1\n"
    assert listed.stderr == "" and "\x1b" not in listed.stdout
    refused = moldau(address, "topic", "describe", f"{name}x")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr == f"moldau: topic '{name}x' does not exist; did you mean '{name}'?\n"


def test_an_unreachable_broker_is_told_without_a_traceback() -> None:
    refused = moldau("127.0.0.1:1", "group", "list")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert len(refused.stderr.splitlines()) == 1


def test_help_is_plain_without_a_terminal(address: str) -> None:
    for command in ([], ["topic"], ["group", "reset"]):
        shown = moldau(address, *command, "--help")
        assert shown.returncode == 0 and shown.stdout.startswith("Usage: moldau")
        assert "\x1b" not in shown.stdout and "╭" not in shown.stdout
    assert moldau(address).returncode == 2


def test_a_reader_that_has_enough(address: str, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    command = [str(PROGRAM), "config", "get", "broker", "--all"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(address)) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) == 0


def test_tables_on_a_terminal_have_bold_headings(address: str, admin: AdminClient, name: str) -> None:
    create_topic(admin, name, configs={"retention.ms": 1234})
    heading, row = on_a_terminal(address, "config", "get", "topic", name).splitlines()
    assert heading.startswith("\x1b[1mTOPIC ") and heading.endswith("\x1b[0m")
    assert row.split() == [name, "retention.ms", "1234", "topic"]


def test_a_terminal_is_asked_before_something_is_deleted(address: str, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    assert "nothing was done" in on_a_terminal(address, "topic", "delete", name, answer="n\n")
    assert f"deleted topic {name}" in on_a_terminal(address, "topic", "delete", name, answer="y\n")


def on_a_terminal(address: str, *arguments: str, answer: str = "") -> str:
    """What a person would see: all three streams are a terminal."""
    ours, theirs = pty.openpty()
    env = environment(address, TERM="xterm", COLUMNS="200")
    process = subprocess.Popen([str(PROGRAM), *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    if answer:
        os.write(ours, answer.encode())
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        # That is how a terminal says that nobody has its other end any more.
        pass
    finally:
        os.close(ours)
        process.wait(SECONDS)
    return seen.decode()


def test_ctrl_c_ends_without_a_traceback(tmp_path: Path) -> None:
    """A cluster that does not answer keeps the command waiting long enough to be interrupted."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [str(PROGRAM), "topic", "list"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(address), text=True
        ) as process:
            # Two connections: the probe, and librdkafka's; by then the command waits.
            for _ in range(2):
                listener.accept()[0].close()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (130, ""), err
    assert "Traceback" not in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_are_completed_by_asking_the_cluster(address: str, admin: AdminClient, name: str, shell: str) -> None:
    create_topic(admin, name)
    commit(address, f"group-{name}", {(name, 0): 0})
    assert completed(address, shell, f"moldau topic describe {name[:-3]}") == [name]
    assert completed(address, shell, f"moldau group describe group-{name[:-3]}") == [f"group-{name}"]


def test_verbs_options_and_silence(address: str) -> None:
    assert "truncate" in completed(address, "bash", "moldau topic tr")
    assert "--replication-factor" in completed(address, "bash", "moldau topic create --repl")
    assert completed("127.0.0.1:1", "bash", "moldau topic describe x") == []


def completed(address: str, shell: str, line: str) -> list[str]:
    """What the shell is offered for a line that ends in the middle of a word."""
    words = line.split(" ")
    variables = {"_MOLDAU_COMPLETE": f"complete_{shell}", "MOLDAU_COMPLETION_SECONDS": "30"}
    if shell == "bash":
        variables |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        variables |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = moldau(address, **variables)
    assert done.stderr == ""
    cleaned = done.stdout.replace("_arguments '*: :((", "").replace("))'", "").replace('"', "")
    return [entry.split(":")[0].split("\t")[0].strip() for entry in cleaned.splitlines() if entry.strip()]


def test_a_waiting_command_needs_little_processor_time(address: str) -> None:
    """The limit stands in no assertion on time: what costs it is which modules are imported."""
    probe = (
        "import sys; from moldau.cli.main import run; code = run(['topic', 'list']); "
        "print(code, *sorted(name for name in sys.modules if '.' not in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=SECONDS, env=environment(address)
    )
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not {"rich", "pydantic", "click", "uvloop", "pyarrow", "numpy", "pyspark", "re2"} & set(modules)
