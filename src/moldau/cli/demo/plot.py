"""The picture at the end: how the queries kept up and caught up, and what they found."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moldau.cli.demo import story
from moldau.cli.demo.expected import Results
from moldau.cli.demo.scene import Scene

INK = "#24292f"
COLOURS = {"north": "#0969da", "south": "#1a7f37", "west": "#bc4c00"}


def draw(scene: Scene, results: Results, path: Path) -> None:
    """Save the plot as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, figsize=(10, 7), layout="constrained")
    try:
        _draw_progress(above, scene)
        _draw_climate(below, results)
        figure.savefig(path, dpi=120)
    finally:
        pyplot.close(figure)


def _draw_progress(axes: Any, scene: Scene) -> None:
    seconds = [sample.seconds for sample in scene.samples]
    axes.plot(seconds, [sample.generated for sample in scene.samples], color=INK, label="events written")
    cleaned = [sample.cleaned for sample in scene.samples]
    axes.step(seconds, cleaned, where="post", color="#0969da", label="events processed (query clean)")
    axes.fill_between(seconds, cleaned, [sample.generated for sample in scene.samples], alpha=0.1, step="post")
    if scene.kill_at is not None:
        axes.axvline(scene.kill_at, color="#cf222e", linestyle="--", label="SIGKILL of the job")
        if scene.back_at is not None:
            axes.axvspan(scene.kill_at, scene.back_at, color="#cf222e", alpha=0.08)
    axes.set(title="Written and processed, with a crash in the middle", xlabel="seconds", ylabel="events")
    axes.legend(loc="upper left")


def _draw_climate(axes: Any, results: Results) -> None:
    for room in story.ROOMS:
        windows = sorted(
            (start, total / count / 10)
            for (where, kind, start), (count, _, _, total) in results.climate.items()
            if where == room and kind == "temperature"
        )
        times = [datetime.fromtimestamp(start / 1000, UTC) for start, _ in windows]
        axes.plot(times, [mean for _, mean in windows], marker=".", color=COLOURS[room], label=f"room {room}, mean")
    last_window = max((start for _, _, start in results.climate), default=0) + story.WINDOW_SECONDS * 1000
    hot = [
        (datetime.fromtimestamp(time / 1000, UTC), value / 10)
        for device, time, value in results.alarms
        if device.endswith("temperature") and time <= last_window
    ]
    axes.scatter([time for time, _ in hot], [value for _, value in hot], marker="x", color="#cf222e", label="alarm")
    axes.set(title="Temperature per minute of event time, and the alarms", xlabel="event time (UTC)", ylabel="°C")
    axes.legend(loc="center left")
