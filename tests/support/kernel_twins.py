"""The compiled kernels and their Python twin, asked the same."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from moldau.kernels import _native


def agreed(twin: ModuleType, name: str, *arguments: Any) -> Any:
    """What both answer, an exception included; fails if they differ."""
    answers = []
    for module in (_native, twin):
        try:
            answers.append(getattr(module, name)(*arguments))
        except ValueError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    return answers[0]
