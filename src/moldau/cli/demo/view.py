"""The live view: a picture that redraws itself on a terminal, a line every few seconds where there is none."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from moldau.cli.demo.scene import Scene

PLAIN_SECONDS = 5.0
REDRAWS_PER_SECOND = 4


class View:
    """Draws a scene as long as the block lasts."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console = console
        self._scene = scene
        self._live: Live | None = None
        self._last_line = -PLAIN_SECONDS

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=lambda: picture(self._scene),
                refresh_per_second=REDRAWS_PER_SECOND,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Give the plain view its turn."""
        if self._live is None and self._scene.seconds - self._last_line >= PLAIN_SECONDS:
            self._last_line = self._scene.seconds
            self._console.print(plain_line(self._scene), highlight=False, soft_wrap=True)

    def say(self, message: str) -> None:
        """A line that stays."""
        line = f"[bold green]•[/] [dim]{self._scene.seconds:5.1f} s[/] {message}"
        self._console.print(line, highlight=False, soft_wrap=True)


def picture(scene: Scene) -> RenderableType:
    """The whole view."""
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{scene.seconds:5.0f} s", style="bold"),
        Text(scene.phase, style="bold red" if scene.phase == "killed" else "bold cyan"),
        ProgressBar(total=scene.total, completed=min(scene.generated, scene.total), width=30),
        Text(f"{scene.generated:,} of {scene.total:,} events written"),
    )
    return Panel(Group(head, _queries(scene), _alarms(scene)), title="moldau demo", border_style="green")


def _queries(scene: Scene) -> Table:
    table = Table(expand=True, box=None, header_style="dim")
    table.add_column("query")
    for heading in ("rows/s", "lag", "batch time", "rows", "batches", "state rows", "watermark"):
        table.add_column(heading, justify="right")
    for name, state in scene.queries.items():
        table.add_row(
            name,
            f"{state.rows_per_second:,.0f}",
            "–" if state.lag is None else f"{state.lag:,}",
            f"{state.milliseconds / 1000:.1f} s",
            f"{state.rows:,}",
            f"{state.batches}",
            f"{state.state_rows:,}" if state.state_rows else "–",
            (state.watermark or "–")[11:19] or "–",
        )
    return table


def _alarms(scene: Scene) -> RenderableType:
    if not scene.alarms:
        return Text("no alarms yet", style="dim")
    table = Table(expand=True, box=None, header_style="dim", title=f"latest of {scene.alarms_seen} alarms")
    for heading in ("time", "device", "room"):
        table.add_column(heading)
    table.add_column("value", justify="right")
    table.add_column("usual", justify="right")
    for row in scene.alarms:
        value = f"[bold red]{row['value']:.1f}"
        table.add_row(str(row["time"])[11:19], row["device"], row["room"], value, f"{row['usual']:.1f}")
    return table


def plain_line(scene: Scene) -> str:
    """The same in one line."""
    queries = "; ".join(
        f"{name} {state.rows:,} rows, {state.rows_per_second:,.0f}/s, lag {'?' if state.lag is None else state.lag}, "
        f"batch {state.milliseconds / 1000:.1f} s"
        for name, state in scene.queries.items()
        if state.batches
    )
    written = f"{scene.generated:,} of {scene.total:,} written"
    return f"  {scene.seconds:5.1f} s {scene.phase}: {written}; {queries or 'no batch yet'}; {scene.alarms_seen} alarms"
