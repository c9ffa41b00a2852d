"""The result for people, as a table, and for programs, as JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]
from rich.console import Group, JustifyMethod
from rich.table import Table
from rich.text import Text

from bench.figures import Goal, Row, Spread, Verdict
from bench.outcomes import AnyOutcome

VERDICT_STYLES = {
    Verdict.MET: "green",
    Verdict.MET_DOUBTFULLY: "green",
    Verdict.MISSED_DOUBTFULLY: "yellow",
    Verdict.MISSED: "red",
}
LEGEND = (
    "Figures: median [smallest..largest]. Ratio: Moldau's median over the other's. Goal: for that ratio, or in the "
    "figure's unit; ~: some pair of repetitions would say otherwise. Other work: cores that were busy "
    "for nobody that is measured, median for each side."
)
# Name, minimal width, alignment. The sections are tables of their own, so the widths keep their columns in line.
COLUMNS: tuple[tuple[str, int, JustifyMethod], ...] = (
    ("figure", 24, "left"),
    ("unit", 6, "left"),
    ("", 27, "right"),
    ("", 27, "right"),
    ("ratio", 6, "right"),
    ("goal", 8, "right"),
    ("", 9, "left"),
)


def number(value: float) -> str:
    """Three significant digits, without exponents."""
    if abs(value) >= 1_000_000:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def spread_text(spread: Spread | None) -> str:
    return f"{number(spread.median)} [{number(spread.low)}..{number(spread.high)}]" if spread else "–"


def goal_text(goal: Goal | None, unit: str) -> str:
    if goal is None:
        return "–"
    return f"{goal.bound.value} {goal.value:.3g}" + ("" if goal.is_ratio else f" {unit}")


def tables(outcomes: Sequence[AnyOutcome]) -> Group:
    """A headline, a section for each case with a line for each figure, and a legend."""
    sides = iter([side.column for side in outcomes[0].sides] if outcomes else ["", ""])
    names = [name or next(sides, "") for name, _, _ in COLUMNS]
    return Group(_lines([[Text(name, style="bold") for name in names]]), *map(_section, outcomes), Text(LEGEND))


def _section(outcome: AnyOutcome) -> Group:
    lines = _lines([_cells(row) for row in outcome.rows()])
    failure = [Text(f"  failed: {outcome.failure}", style="red")] if outcome.failure else []
    return Group(Text(_heading(outcome), style="bold cyan"), lines, *failure)


def _lines(cells: Sequence[Sequence[Text]]) -> Table:
    result = Table(box=None, show_header=False, padding=(0, 1, 0, 1))
    for _, width, justify in COLUMNS:
        result.add_column(justify=justify, min_width=width, no_wrap=True)
    for line in cells:
        result.add_row(*line)
    return result


def _heading(outcome: AnyOutcome) -> str:
    others = [spread.median for side in outcome.sides if (spread := outcome.spread(side, "other_cores"))]
    noise = f" (other work: {' / '.join(f'{each:.1f}' for each in others)})" if others else ""
    return f"{outcome.case.name}: {outcome.case.title}{noise}"


def _cells(row: Row) -> list[Text]:
    verdict = row.verdict
    return [
        Text(row.figure.name),
        Text(row.figure.unit),
        Text(spread_text(row.ours)),
        Text(spread_text(row.theirs)),
        Text(f"{row.ratio.median:.2f}" if row.ratio else "–"),
        Text(goal_text(row.figure.goal, row.figure.unit)),
        Text(verdict.value, style=VERDICT_STYLES[verdict]) if verdict else Text(""),
    ]


def summary(outcomes: Sequence[AnyOutcome]) -> str:
    verdicts = [row.verdict for outcome in outcomes for row in outcome.rows() if row.verdict]
    met = sum(verdict in (Verdict.MET, Verdict.MET_DOUBTFULLY) for verdict in verdicts)
    return f"{met} of {len(verdicts)} goals met"


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def as_json(outcomes: Sequence[AnyOutcome]) -> list[dict[str, Any]]:
    return [
        {
            "case": outcome.case.name,
            "title": outcome.case.title,
            "failure": outcome.failure or None,
            "figures": [_row_as_json(row, [side.value for side in outcome.sides]) for row in outcome.rows()],
            "repetitions": {side.value: [dict(each) for each in runs] for side, runs in outcome.repetitions.items()},
        }
        for outcome in outcomes
    ]


def _row_as_json(row: Row, names: Sequence[str]) -> dict[str, Any]:
    goal = row.figure.goal
    return {
        "key": row.figure.key,
        "name": row.figure.name,
        "unit": row.figure.unit,
        names[0]: _spread_as_json(row.ours),
        names[1]: _spread_as_json(row.theirs),
        "ratio": row.ratio.median if row.ratio else None,
        "goal": {"bound": goal.bound.value, "value": goal.value, "is_ratio": goal.is_ratio} if goal else None,
        "verdict": row.verdict.value if row.verdict else None,
    }


def _spread_as_json(spread: Spread | None) -> dict[str, float] | None:
    return {"median": spread.median, "low": spread.low, "high": spread.high} if spread else None
