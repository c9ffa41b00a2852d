"""Calls that are wrong where they stand: they block the loop, print into nowhere, or take a clock nobody passed in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import SOURCE, python_files, short, tree_of

COMMAND_LINE = SOURCE / "cli"
# Where real clocks and randomness are made and handed down.
WORKER = SOURCE / "connect" / "worker"
EDGES = (
    SOURCE / "server" / "node.py",
    SOURCE / "registry" / "node.py",
    SOURCE / "rest" / "node.py",
    WORKER / "node.py",
    WORKER / "group_node.py",
    COMMAND_LINE,
)

# The codec compiles one encoder and decoder per message and version from our own schemas, as dataclasses does.
COMPILES_ITS_OWN_TEXT = SOURCE / "wire" / "codec.py"
# One line on stdout tells scripts that the broker is ready.
PRINTS_THE_READY_LINE = SOURCE / "server" / "node.py"

BANNED_EVERYWHERE = {
    "time.sleep": "it stops the whole broker",
    "os.system": "use subprocess",
    "eval": "never",
    "exec": "never",
    "breakpoint": "left over",
    "pdb.set_trace": "left over",
}
BANNED_BELOW_THE_COMMAND_LINE = {"print": "log instead", "input": "a broker asks nobody", "sys.exit": "raise instead"}
BANNED_OUTSIDE_THE_EDGES = {
    "time.time": "pass the wall clock in",
    "time.time_ns": "pass the wall clock in",
    "time.monotonic": "pass the monotonic clock in",
    "datetime.now": "pass the wall clock in",
    "datetime.datetime.now": "pass the wall clock in",
    "random.Random": "pass the generator in",
    "random.random": "pass the generator in",
    "random.randint": "pass the generator in",
    "random.randrange": "pass the generator in",
    "random.choice": "pass the generator in",
    "random.shuffle": "pass the generator in",
    "random.sample": "pass the generator in",
    "random.seed": "pass the generator in",
    "uuid.uuid4": "pass the generator in",
}


def test_no_banned_call() -> None:
    found = [problem for path in python_files("src") for problem in _banned_calls(path)]
    assert found == []


def _banned_calls(path: Path) -> Iterator[str]:
    banned = dict(BANNED_EVERYWHERE)
    if path == COMPILES_ITS_OWN_TEXT:
        del banned["exec"]
    if path != PRINTS_THE_READY_LINE and COMMAND_LINE not in path.parents:
        banned |= BANNED_BELOW_THE_COMMAND_LINE
    if not any(edge == path or edge in path.parents for edge in EDGES):
        banned |= BANNED_OUTSIDE_THE_EDGES
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in banned:
            yield f"{short(path)}:{node.lineno}: {name}(): {banned[name]}"


def test_the_id_that_stands_for_none_is_made_once() -> None:
    found = [short(path) for path in python_files("src") if "UUID(int=0)" in path.read_text()]
    assert found == ["src/moldau/types/ids.py"], "use its ZERO_UUID"


def test_one_folder_decides_with_which_client_a_cluster_is_asked() -> None:
    """The commands go through cli/calls; what reaches a cluster, cli/connection.py, hands the clients out."""
    asking = (COMMAND_LINE / "calls", COMMAND_LINE / "connection.py")
    found = [
        f"{short(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in python_files("src")
        if COMMAND_LINE in path.parents and not any(each == path or each in path.parents for each in asking)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute | ast.ImportFrom | ast.Import) and _chooses_a_client(node)
    ]
    assert found == []


def _chooses_a_client(node: ast.Attribute | ast.ImportFrom | ast.Import) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ("admin", "wire")
    package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return any(f"{package}{each.name}".startswith("moldau.client.asking") for each in node.names)


def test_tests_never_sleep_to_synchronise() -> None:
    # One place may pause between two looks; everything else waits for an event or looks again through it.
    # The crash tests live a random while before each kill: that is their subject, nothing waits for it.
    # The clients of the simulation pause in virtual time.
    pause_between_looks = {
        "tests/support/waiting.py",
        "tests/support/process.py",
        "tests/faults/chaos.py",
        "tests/faults/exactly_once.py",
        "tests/faults/test_mirror_crashes.py",
        "tests/faults/spark_chaos.py",
        "tests/simulation/clients.py",
    }
    found = [
        f"{short(path)}:{node.lineno}"
        for path in python_files("tests")
        if short(path) not in pause_between_looks
        and not short(path).startswith("tests/simulation/")  # its clock is the test's own: a sleep takes no time
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]
    assert found == []
