"""The option parser of the `kafka-*` tools, their table, and the small readers behind them."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from moldau.cli.kafka.argument_parser import java_words
from moldau.cli.kafka.catalogue import LATER, TOOLS, entry_points
from moldau.cli.kafka.entry import run
from moldau.cli.kafka.failures import java_text, table
from moldau.cli.kafka.options import OptionError, Parser, UsageError, VersionAsked, flag, optional_value, value
from moldau.cli.kafka.usage import usage
from moldau.cli.kafka.zookeeper import address_of, brokers_behind, registered_brokers
from moldau.types.error_codes import ErrorCode

ROOT = Path(__file__).resolve().parents[3]
PARSER = Parser(
    "What it does.",
    flag("list", "List them."),
    flag("describe", "Describe them."),
    value("topic", "topic", "The topic."),
    value("topic-partitions", "list", "Partitions."),
    value("partitions", "number", "How many.", kind=int, default="3"),
    value("delete-config", "names", "Names.", separator=","),
    optional_value("state", "String", "The state.", available_if=("list",)),
    value("zookeeper", "hosts", hidden=True),
)


def test_both_forms_of_a_value() -> None:
    assert PARSER.parse(["--topic", "a"]).text("topic") == "a"
    assert PARSER.parse(["--topic=a=b"]).text("topic") == "a=b"
    assert PARSER.parse(["--topic="]).text("topic") == ""
    assert PARSER.parse(["--topic", "--list"]).text("topic") == "--list"


def test_repeated_and_separated_values() -> None:
    found = PARSER.parse(["--delete-config", "a,b", "--delete-config", "c"])
    assert found.texts("delete-config") == ["a", "b", "c"]
    with pytest.raises(OptionError, match="Found multiple arguments for option topic, but you asked for only one"):
        PARSER.parse(["--topic", "a", "--topic", "b"]).text("topic")


def test_optional_values() -> None:
    assert PARSER.parse(["--list", "--state"]).text("state") is None
    assert PARSER.parse(["--list", "--state", "stable"]).text("state") == "stable"
    assert PARSER.parse(["--list", "--state", "--describe"]).has("describe")


def test_defaults_and_numbers() -> None:
    assert PARSER.parse(["--list"]).number("partitions") == 3
    assert not PARSER.parse(["--list"]).has("partitions")
    with pytest.raises(OptionError, match="Cannot parse argument 'x' of option partitions"):
        PARSER.parse(["--partitions", "x"]).number("partitions")


def test_beginnings_of_names() -> None:
    assert PARSER.parse(["--desc"]).has("describe")
    assert PARSER.parse(["--topic-p", "a"]).text("topic-partitions") == "a"
    assert PARSER.parse(["--topic", "a"]).has("topic")
    with pytest.raises(OptionError, match="top is not a recognized option"):
        PARSER.parse(["--top", "a"])


def test_words_and_what_follows_two_dashes() -> None:
    assert PARSER.parse(["a", "--list", "-", "--", "--topic"]).rest == ["a", "-", "--topic"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["-x"], "x is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--state"], r"Option\(s\) \[state\] are unavailable given other options on the command line"),
    ],
)
def test_what_the_parser_refuses(arguments: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PARSER.parse(arguments)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--list", "--help"]])
def test_help(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="What it does"):
        PARSER.parse(arguments)


def test_version() -> None:
    with pytest.raises(VersionAsked):
        PARSER.parse(["--version"])


def test_checks_among_options() -> None:
    found = PARSER.parse(["--list", "--describe"])
    with pytest.raises(UsageError, match=r'Missing required argument "\[topic\]"'):
        PARSER.require(found, "list", "topic")
    with pytest.raises(UsageError, match=r'Option "\[list\]" can\'t be used with option "\[describe\]"'):
        PARSER.refuse_together(found, "list", ["describe"])
    with pytest.raises(UsageError, match=r"Exactly one of the following arguments is required: \[list\], \[describe\]"):
        PARSER.require_one_of(found, "list", "describe")


def test_usage_is_two_columns_without_what_is_hidden() -> None:
    lines = usage(PARSER).splitlines()
    assert lines[0].split() == ["Option", "Description"]
    assert lines[2].split()[:2] == ["--delete-config", "<String:"]
    assert any("(default: 3)" in line for line in lines)
    assert not any("zookeeper" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_entry_points_are_those_of_the_table() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name: target for name, target in scripts.items() if name != "moldau"} == entry_points()


def test_every_tool_has_its_module_and_no_name_is_twice() -> None:
    folder = ROOT / "src" / "moldau" / "cli" / "kafka"
    assert all((folder / f"{tool.module}.py").exists() for tool in TOOLS.values())
    assert not set(TOOLS) & set(LATER)


def test_unknown_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kafka-bogus", []) == 1
    assert "kafka-bogus is none of the tools" in capsys.readouterr().err


def test_run_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kafka-run-class.sh", ["kafka.tools.DumpLogSegments"]) == 1
    assert "This tool helps to parse a log file" in capsys.readouterr().err
    assert run("kafka-run-class", ["com.example.Main"]) == 1
    assert "Java classes cannot be run here" in capsys.readouterr().err
    assert run("kafka-run-class", []) == 1


def test_every_error_code_has_javas_class_and_message() -> None:
    assert {int(code) for code in ErrorCode} - {0} <= set(table())
    assert java_text(3) == (
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        "This server does not host this topic-partition."
    )
    assert java_text(36, "Topic 'a' already exists.").endswith("TopicExistsException: Topic 'a' already exists.")


@pytest.mark.parametrize(
    ("python", "java"),
    [
        ("the following arguments are required: --a, --b", "argument --a is required"),
        ("the following arguments are required: COMMAND", "too few arguments"),
        ("unrecognized arguments: --x --y", "unrecognized arguments: '--x'"),
        (
            "argument --n: invalid long value: 'x'",
            "argument --n: could not convert 'x' to Long (For input string: \"x\")",
        ),
        ("something else", "something else"),
    ],
)
def test_errors_of_the_measuring_tools(python: str, java: str) -> None:
    assert java_words(python) == java


def test_the_entry_is_light() -> None:
    """Starting a tool pays for its own imports alone."""
    code = "import sys, moldau.cli.kafka.entry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "confluent_kafka",
        "asyncio",
        "typer",
        "rich",
        "argparse",
        "moldau.client",
        "moldau.server",
        "moldau.storage",
    }
    assert heavy.isdisjoint(loaded)


def test_brokers_registered_in_zookeeper() -> None:
    assert address_of({"endpoints": ["SSL://a:9093", "PLAINTEXT://a:9092"], "host": None, "port": -1}) == "a:9092"
    assert address_of({"endpoints": ["SSL://a:9093"]}) == "a:9093"
    assert address_of({"host": "a", "port": 9092}) == "a:9092"


def test_where_nobody_listens_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []

    def wait(hosts: str, _: float) -> None:
        waits.append(hosts)
        raise TimeoutError("no answer")

    monkeypatch.setattr("moldau.cli.zookeeper.client.open_client", wait)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert registered_brokers(address) == ("", "ZooKeeper: no answer")
    found, problem = registered_brokers(f"{address},{address}/chroot")
    assert (found, "refused" in problem, waits) == ("", True, [address])


def test_without_zookeeper_the_profile_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVERS", "here:9092")
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    assert brokers_behind("localhost:2181/chroot") == "here:9092"
    warning = capsys.readouterr().err
    assert warning.startswith("WARNING: --zookeeper localhost:2181/chroot was not used")
    assert "going to here:9092" in warning
