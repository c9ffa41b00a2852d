"""The units of the page on operations: systemd can read them, and what they start takes what they give it."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.broker import starting
from moldau.cli.kafka.catalogue import TOOLS
from moldau.cli.kafka.start_options import without_start_options

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "operations.md"
UNIT = re.compile(r"```ini\n(.*?)```", re.DOTALL)
PLACES = ("moldau.service", "zookeeper.service", "moldau.service.d/zookeeper.conf")
INSTALLED = "/opt/moldau/bin/"
#: What one of these means is in systemd.unit, systemd.service, systemd.exec and systemd.kill.
KNOWN = {
    "Unit": {"Description", "After", "Requires"},
    "Service": {
        "Type", "User", "ExecStart", "KillSignal", "TimeoutStopSec", "Restart", "SuccessExitStatus", "LimitNOFILE",
        "StateDirectory", "LogsDirectory",
    },
    "Install": {"WantedBy"},
}  # fmt: skip


@pytest.fixture
def units() -> dict[str, configparser.ConfigParser]:
    return {place: parsed(text) for place, text in zip(PLACES, UNIT.findall(PAGE.read_text()), strict=True)}


def parsed(text: str) -> configparser.ConfigParser:
    """Strict: a key that stands twice is refused."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def command(unit: configparser.ConfigParser) -> list[str]:
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert program.startswith(INSTALLED)
    return [program.removeprefix(INSTALLED), *arguments]


def test_the_units_say_what_systemd_knows(units: dict[str, configparser.ConfigParser]) -> None:
    """AD-12, AD-13: what is started again, and what is started first."""
    for place, unit in units.items():
        for section in unit.sections():
            assert set(unit[section]) <= KNOWN[section], place
    assert units[PLACES[1]]["Service"]["Restart"] == "on-abnormal"
    assert dict(units[PLACES[2]]["Unit"]) == {"Requires": PLACES[1], "After": PLACES[1]}
    for place in PLACES:
        assert f"`/etc/systemd/system/{place}`" in PAGE.read_text()


def test_what_the_units_start_is_there(units: dict[str, configparser.ConfigParser]) -> None:
    name, *arguments = command(units[PLACES[0]])
    assert (name, *arguments[:2]) == ("moldau", "broker", "start")
    assert starting.parser().parse_args(arguments[2:]).config == Path("/etc/moldau/server.properties")
    name, *arguments = command(units[PLACES[1]])
    assert name in TOOLS
    assert without_start_options(arguments) == (["/etc/moldau/zookeeper.properties"], False)


def test_systemd_reads_them(tmp_path: Path) -> None:
    """Where it is; it warns of what it does not know, and fails where it cannot start what is named."""
    verify = shutil.which("systemd-analyze")
    installed = f"{Path(sys.executable).parent}/"
    for place, text in zip(PLACES, UNIT.findall(PAGE.read_text()), strict=True):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(text.replace(INSTALLED, installed))
    if verify is not None:
        units = [tmp_path / place for place in PLACES[:2]]
        done = subprocess.run([verify, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
