"""The run as a short film: an SVG that moves by CSS alone, so that it plays wherever a picture is shown.

The time of the run is pressed into a few seconds. A curtain is drawn away from left to right over the curves; kill,
return and verdict appear when it is their turn. Who asked for less motion sees the end.
"""

from collections.abc import Sequence

from moldau.cli.demo import story
from moldau.cli.demo.expected import Results
from moldau.cli.demo.plot import DEAD, GOOD, INK, course, places
from moldau.cli.demo.scene import Scene

WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 90, 870, 90, 340
LOOP_SECONDS = 14.0
SHOWN_SHARE = 0.7
"""Of the loop, the curves are drawn; the rest is for reading the verdict."""

KILLED = "#cf222e"
EXACT = "#1a7f37"
FAINT = "#57606a"
TITLE = "moldau demo: events written and processed, the job killed in the middle, every result compared"


def film(scene: Scene, found: Results, *, exact: bool) -> str:
    """The SVG as text."""
    seconds, written, cleaned = course(scene, found)
    stage = _Stage(max([1.0, *seconds]), max([1, *written, *cleaned]))
    curves = stage.line(seconds, written, INK) + stage.steps(seconds, cleaned, GOOD)
    shapes = [
        f"<title>{TITLE}</title>",
        f"<style>{_style(stage, scene)}</style>",
        f'<clipPath id="curtain">{_rectangle(LEFT, 0, RIGHT - LEFT, HEIGHT, "curtain")}</clipPath>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *_frame(stage, scene),
        f'<g clip-path="url(#curtain)">{curves}</g>',
        *_crash(stage, scene),
        *_verdict(found, exact=exact),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, *shapes, "</svg>", ""])


class _Stage:
    """Where a moment and a count are in the picture, and when in the loop."""

    def __init__(self, seconds: float, events: int) -> None:
        self.seconds = seconds
        self.events = events

    def x(self, seconds: float) -> float:
        return LEFT + (RIGHT - LEFT) * seconds / self.seconds

    def y(self, events: int) -> float:
        return BOTTOM - (BOTTOM - TOP) * events / self.events

    def percent(self, seconds: float) -> float:
        """Of the loop, when this moment of the run is shown."""
        return 100 * SHOWN_SHARE * seconds / self.seconds

    def line(self, seconds: Sequence[float], events: Sequence[int], colour: str) -> str:
        points = " ".join(f"{self.x(at):.1f},{self.y(count):.1f}" for at, count in zip(seconds, events, strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'

    def steps(self, seconds: Sequence[float], events: Sequence[int], colour: str) -> str:
        """A count holds until the next one is told."""
        moments = [*seconds[:1], *(at for at in seconds[1:] for _ in range(2))]
        counts = [count for count in events for _ in range(2)][: len(moments)]
        return self.line(moments, counts, colour)


def _frame(stage: _Stage, scene: Scene) -> list[str]:
    what = f"moldau demo: {scene.generated:,} events through topics and Spark in {scene.seconds:.0f} s"
    return [
        _text(LEFT, 34, what, INK, "bold", size=20),
        _text(LEFT, 62, "written", INK),
        _text(LEFT + 70, 62, "processed", GOOD),
        f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="{FAINT}"/>',
        _text(LEFT - 8, TOP + 5, f"{stage.events:,}", FAINT, anchor="end"),
        _text(LEFT - 8, BOTTOM, "0", FAINT, anchor="end"),
        _text(RIGHT, BOTTOM + 20, f"{stage.seconds:.0f} s", FAINT, anchor="end"),
    ]


def _crash(stage: _Stage, scene: Scene) -> list[str]:
    if scene.kill_at is None:
        return []
    at, back = (stage.x(moment) for moment in _killed_and_back(scene, scene.kill_at))
    dashes = f'stroke="{KILLED}" stroke-width="2" stroke-dasharray="6 4"'
    return [
        '<g class="killed">',
        _rectangle(at, TOP, back - at, BOTTOM - TOP, "gap", f'fill="{KILLED}" opacity="0.12"'),
        f'<path d="M{at:.1f} {TOP}V{BOTTOM}" {dashes}/>',
        _text(at - 8, BOTTOM - 12, "SIGKILL", KILLED, "bold", anchor="end"),
        "</g>",
        f'<g class="back">{_text(back + 6, BOTTOM - 12, "goes on", INK)}</g>',
    ]


def _killed_and_back(scene: Scene, kill_at: float) -> tuple[float, float]:
    return kill_at, kill_at if scene.back_at is None else scene.back_at


def _verdict(found: Results, *, exact: bool) -> list[str]:
    counted = places(found)
    dead = sum(count for name, count in counted.items() if name.startswith(f"topic {story.DEAD_LETTERS}"))
    good = sum(counted.values()) - dead
    verdict = "Exactly once: every result equals" if exact else "A fault: the results differ from"
    return [
        '<g class="verdict">',
        _text(LEFT, BOTTOM + 42, f"found: {good:,} readings and requests", GOOD),
        _text(LEFT + 400, BOTTOM + 42, f"{dead:,} dead letters", DEAD),
        _text(LEFT, BOTTOM + 66, f"{verdict} a recomputation without Spark", EXACT if exact else KILLED, "bold"),
        "</g>",
    ]


def _text(
    x: float, y: float, content: str, colour: str, weight: str = "normal", *, anchor: str = "start", size: int = 15
) -> str:
    looks = f'fill="{colour}" font-weight="{weight}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {looks}>{content}</text>'


def _rectangle(x: float, y: float, width: float, height: float, name: str, looks: str = "") -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {looks}/>'


def _style(stage: _Stage, scene: Scene) -> str:
    shown = 100 * SHOWN_SHARE
    rules = [_appear("verdict", shown)]
    if scene.kill_at is not None:
        moments = _killed_and_back(scene, scene.kill_at)
        rules += [_appear(name, stage.percent(at)) for name, at in zip(("killed", "back"), moments, strict=True)]
    rules.append(
        f"@keyframes draw{{0%{{transform:scaleX(0)}}{shown:.1f}%,100%{{transform:scaleX(1)}}}}"
        f".curtain{{transform-origin:{LEFT}px 0;animation:draw {LOOP_SECONDS}s linear infinite}}"
    )
    rules.append("@media(prefers-reduced-motion:reduce){*{animation:none!important}}")
    return "".join(rules)


def _appear(name: str, percent: float) -> str:
    shown = min(percent + 0.5, 99.9)
    frames = f"@keyframes {name}{{0%,{percent:.1f}%{{opacity:0}}{shown:.1f}%,100%{{opacity:1}}}}"
    return f"{frames}.{name}{{animation:{name} {LOOP_SECONDS}s linear infinite}}"
