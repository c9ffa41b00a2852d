"""The commands behind `python -m tests.conformance`.

live     start Apache Kafka and Moldau, send both the same requests, compare; also compares Kafka with its recording
record   start Apache Kafka and replace the recordings in the repository
compare  start Moldau and compare it with the recordings
"""

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from tests.conformance import brokers, recording
from tests.conformance.known_differences import KNOWN_DIFFERENCES, KnownDifference, unexplained
from tests.conformance.player import play
from tests.conformance.recording import RECORDED, Difference
from tests.conformance.scenario import Scenario, chosen_scenarios
from tests.support.process import BrokerProcess

Start = Callable[[Path, bool], BrokerProcess]
KAFKA = "Apache Kafka 4.3.0"


class Findings:
    """Differences of one broker, told once for all versions that show them."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, str], list[int]] = {}
        self.steps = 0
        self.used: set[KnownDifference] = set()

    def add(self, scenario: Scenario, version: int, differences: Sequence[Difference]) -> None:
        left = unexplained(scenario.name, differences)
        for known in KNOWN_DIFFERENCES:
            if any(known.covers(scenario.name, difference) for difference in differences):
                self.used.add(known)
        for difference in left:
            self.fail(scenario, version, str(difference))

    def fail(self, scenario: Scenario, version: int, text: str) -> None:
        self.versions.setdefault((scenario.name, text), []).append(version)

    def of(self, scenario: Scenario) -> int:
        return sum(name == scenario.name for name, _ in self.versions)

    def show(self, console: Console) -> None:
        for (scenario, text), versions in self.versions.items():
            shown = ",".join(map(str, versions))
            console.print(f"{scenario} v{shown} · {text}", markup=False, highlight=False, soft_wrap=True)


def record(start: Start, folder: Path, scenarios: Sequence[Scenario]) -> None:
    for broker, played in on_brokers(start, scenarios):
        for scenario in track(played, "recording", transient=True):
            answers = {version: play(scenario, version, broker) for version in scenario.versions}
            recording.store(folder, scenario.name, KAFKA, answers)


def compare(start: Start, folder: Path, scenarios: Sequence[Scenario]) -> Findings:
    found = Findings()
    for broker, played in on_brokers(start, scenarios):
        for scenario in track(played, "comparing", transient=True):
            for version in scenario.versions:
                try:
                    answers = play(scenario, version, broker)
                except Exception as problem:
                    found.fail(scenario, version, f"{type(problem).__name__}: {problem}")
                    continue
                found.steps += len(answers)
                expected = recording.load(folder, scenario.name, version)
                found.add(scenario, version, recording.compare(expected, answers))
    return found


def on_brokers(start: Start, scenarios: Sequence[Scenario]) -> Iterator[tuple[BrokerProcess, Sequence[Scenario]]]:
    """A broker without an authorizer for those that need none, then one with it for the others."""
    for guarded in (False, True):
        played = [scenario for scenario in scenarios if scenario.guarded is guarded]
        if played:
            with running(start, guarded) as broker:
                yield broker, played


def compare_recordings(fresh: Path, scenarios: Sequence[Scenario]) -> Findings:
    """Whether the real broker still answers as it did; nothing is excused here."""
    found = Findings()
    for scenario in scenarios:
        for version in scenario.versions:
            stored = recording.load(RECORDED, scenario.name, version)
            answers = recording.load(fresh, scenario.name, version)
            for difference in recording.compare(stored, answers):
                found.fail(scenario, version, str(difference))
    return found


def live(scenarios: Sequence[Scenario], console: Console) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        record(brokers.apache_kafka, folder, scenarios)
        drift = compare_recordings(folder, scenarios)
        found = compare(brokers.moldau, folder, scenarios)
    table = Table(
        Column("scenario", no_wrap=True),
        "versions",
        "Moldau against Apache Kafka",
        "Apache Kafka against its recording",
    )
    for scenario in scenarios:
        versions = f"{min(scenario.versions)}-{max(scenario.versions)}"
        table.add_row(scenario.name, versions, verdict(found.of(scenario)), verdict(drift.of(scenario)))
    console.print(table)
    found.show(console)
    drift.show(console)
    stale = [known for known in KNOWN_DIFFERENCES if known not in found.used] if len(scenarios) > 1 else []
    for known in stale:
        console.print(f"no longer needed: {known}", markup=False, soft_wrap=True)
    console.print(f"{found.steps} answers compared, {len(found.versions)} differences, {len(found.used)} known ones")
    return 1 if found.versions or drift.versions else 0


def verdict(differences: int) -> str:
    return f"[red]{differences} different[/red]" if differences else "[green]equal[/green]"


@contextlib.contextmanager
def running(start: Start, guarded: bool) -> Iterator[BrokerProcess]:
    """A broker in a folder of its own; both end with the block."""
    with tempfile.TemporaryDirectory(prefix="moldau-conformance-") as folder, start(Path(folder), guarded) as broker:
        yield broker


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", default="live", choices=("live", "record", "compare"))
    parser.add_argument("scenarios", nargs="*", help="parts of scenario names; all scenarios if none is given")
    parser.add_argument("--folder", type=Path, default=RECORDED, help="where recordings are")
    chosen = parser.parse_args(arguments)
    scenarios, console = chosen_scenarios(chosen.scenarios), Console()
    if chosen.command == "live":
        return live(scenarios, console)
    if chosen.command == "record":
        record(brokers.apache_kafka, chosen.folder, scenarios)
        return 0
    found = compare(brokers.moldau, chosen.folder, scenarios)
    found.show(console)
    console.print(f"{found.steps} answers compared, {len(found.versions)} differences, {len(found.used)} known ones")
    return 1 if found.versions else 0
