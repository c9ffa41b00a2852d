"""The picture at the end: how the queries kept up and caught up, and what they found."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moldau.cli.demo import story
from moldau.cli.demo.expected import Results
from moldau.cli.demo.scene import Scene

INK = "#24292f"
COLOURS = {"north": "#0969da", "south": "#1a7f37", "west": "#bc4c00"}
GOOD = "#0969da"
DEAD = "#9a6700"
HEIGHTS = (3, 1.6, 3)


def draw(scene: Scene, results: Results, path: Path) -> None:
    """Save the plot as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    shape = {"height_ratios": HEIGHTS}
    figure, (above, between, below) = pyplot.subplots(3, 1, figsize=(10, 9), layout="constrained", gridspec_kw=shape)
    try:
        _draw_progress(above, scene, results)
        _draw_places(between, results)
        _draw_climate(below, results)
        figure.savefig(path, dpi=120)
    finally:
        pyplot.close(figure)


def _draw_progress(axes: Any, scene: Scene, results: Results) -> None:
    seconds, written, cleaned = course(scene, results)
    axes.plot(seconds, written, color=INK, label="events written")
    axes.step(seconds, cleaned, where="post", color=GOOD, label="events processed (query clean)")
    axes.fill_between(seconds, cleaned, written, alpha=0.1, step="post")
    if scene.kill_at is not None:
        axes.axvline(scene.kill_at, color="#cf222e", linestyle="--", label="SIGKILL of the job")
        if scene.back_at is not None:
            axes.axvspan(scene.kill_at, scene.back_at, color="#cf222e", alpha=0.08)
    axes.set(title="Written and processed, with a crash in the middle", xlabel="seconds", ylabel="events")
    axes.legend(loc="upper left")


def course(scene: Scene, results: Results) -> tuple[list[float], list[int], list[int]]:
    """Seconds, events written, events processed: as the query told it, and last what was found in its topics.

    A batch that was done when the job was killed, and not told yet, is missing in between.
    """
    points = [(sample.seconds, sample.generated, sample.cleaned) for sample in scene.samples]
    if points:
        points.append((points[-1][0], scene.generated, sum(places(results).values())))
    return [point[0] for point in points], [point[1] for point in points], [point[2] for point in points]


def places(results: Results) -> dict[str, int]:
    """How many events were found where: every event is in one of these places."""
    good = {f"topic {story.READINGS}": results.readings.total(), f"topic {story.REQUESTS}": results.requests.total()}
    dead = {f"topic {story.DEAD_LETTERS}: {reason}": count for reason, count in sorted(results.dead_letters.items())}
    return good | dead


def _draw_places(axes: Any, results: Results) -> None:
    found = places(results)
    colours = [DEAD if name.startswith(f"topic {story.DEAD_LETTERS}") else GOOD for name in found]
    bars = axes.barh(list(found), list(found.values()), color=colours)
    axes.bar_label(bars, labels=[f"{count:,}" for count in found.values()], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=f"Where they went: {sum(found.values()):,} events, each in one place", xlabel="events")


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
