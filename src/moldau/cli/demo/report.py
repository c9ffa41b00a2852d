"""The end of the demo: the results in tables, the comparison, and both as pictures."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from moldau.cli.demo import story
from moldau.cli.demo.expected import Results
from moldau.cli.demo.scene import Scene

PICTURE_WIDTH = 100


def show(console: Console, output: Path, scene: Scene, expected: Results, found: Results) -> bool:
    """Print the report, save the pictures, and say whether everything is equal."""
    from moldau.cli.demo import film, plot

    exact = expected == found
    page = Group(climate(found), crash(scene), proof(scene, expected, found), verdict(exact))
    console.print(page)
    output.mkdir(parents=True, exist_ok=True)
    plot.draw(scene, found, output / "demo.png")
    recorder = Console(record=True, width=PICTURE_WIDTH, file=StringIO(), force_terminal=True)
    recorder.print(page)
    recorder.save_svg(str(output / "demo.svg"), title="moldau demo")
    (output / "film.svg").write_text(film.film(scene, found, exact=exact))
    names = ", ".join(str(output / name) for name in ("demo.png", "demo.svg", "film.svg"))
    console.print(f"[bold green]•[/] Pictures: {names}", highlight=False)
    return exact


def climate(found: Results) -> RenderableType:
    """Rooms over the whole run, summed up from the windows."""
    table = Table(title="Climate of the rooms (from Parquet, windows of one minute of event time)", expand=True)
    table.add_column("room")
    table.add_column("measure")
    for heading in ("readings", "mean", "low", "high", "alarms", "incidents"):
        table.add_column(heading, justify="right")
    rooms = {device.device: (device.room, device.kind) for device in story.device_table()}
    for room in story.ROOMS:
        for kind in ("temperature", "power"):
            windows = [row for (where, what, _), row in found.climate.items() if (where, what) == (room, kind)]
            if not windows:
                continue
            readings = sum(count for count, *_ in windows)
            table.add_row(
                room,
                kind,
                f"{readings:,}",
                f"{sum(total for *_, total in windows) / readings / 10:.1f}",
                f"{min(lowest for _, lowest, _, _ in windows) / 10:.1f}",
                f"{max(highest for _, _, highest, _ in windows) / 10:.1f}",
                f"{sum(count for (device, *_), count in found.alarms.items() if rooms[device] == (room, kind))}",
                f"{sum(n for (_, device, *_), n in found.incidents.items() if rooms[device] == (room, kind))}",
            )
    return table


def crash(scene: Scene) -> RenderableType:
    """What the crash cost."""
    if scene.kill_at is None or scene.back_at is None:
        return f"{scene.generated:,} events in {scene.seconds:.0f} s"
    return (
        f"{scene.generated:,} events in {scene.seconds:.0f} s; the Spark job was killed (SIGKILL) after "
        f"{scene.kill_at:.0f} s and finished its first batch again {scene.back_at - scene.kill_at:.0f} s later"
    )


def proof(scene: Scene, expected: Results, found: Results) -> RenderableType:
    """Each result beside what an independent computation over the same input gives."""
    table = Table(title="The proof: every result against a recomputation without Spark", expand=True)
    table.add_column("result")
    for heading in ("recomputed", "found", "different"):
        table.add_column(heading, justify="right")
    _compare(table, "readings, per device", expected.readings, found.readings)
    _compare(table, "requests, per server and status", expected.requests, found.requests)
    for reason in sorted(expected.dead_letters | found.dead_letters):
        pair = ({reason: expected.dead_letters[reason]}, {reason: found.dead_letters[reason]})
        _compare(table, f"dead letters: {reason}", *pair)
    _compare(table, "dead letters, by their place in the input", expected.dead_positions, found.dead_positions)
    _compare(table, "alarms: device, time, value", expected.alarms, found.alarms)
    _compare(table, "windows: count, lowest, highest, sum", expected.climate, found.climate)
    _compare(table, "incidents: alarm and failed request", expected.incidents, found.incidents)
    dropped = sum(state.dropped_late for state in scene.queries.values())
    table.add_row("rows dropped by the watermark", "0", f"{dropped}", _mark(dropped))
    return table


def _compare(table: Table, name: str, expected: Mapping[Any, Any], found: Mapping[Any, Any]) -> None:
    different = sum(expected.get(key) != found.get(key) for key in expected.keys() | found.keys())
    table.add_row(name, f"{_size(expected):,}", f"{_size(found):,}", _mark(different))


def _size(values: Mapping[Any, Any]) -> int:
    """How much is counted; rows that are no counts count one each."""
    return sum(value if isinstance(value, int) else 1 for value in values.values())


def _mark(different: int) -> str:
    return f"[bold {'red' if different else 'green'}]{different:,}"


def verdict(exact: bool) -> RenderableType:
    """One line to remember."""
    if exact:
        return Panel("Exactly once: nothing lost, nothing doubled, nothing changed.", border_style="bold green")
    return Panel("The results differ from the recomputation: this is a fault.", border_style="bold red")
