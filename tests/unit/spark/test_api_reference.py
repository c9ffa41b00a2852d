"""Every parameter of what programs call is described."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import moldau.spark
from moldau.spark.api_reference import FUNCTIONS, field_notes, signature
from moldau.spark.listener import Progress, ProgressListener


@pytest.mark.parametrize("called", [*(function for _, function in FUNCTIONS), ProgressListener])
def test_every_parameter_is_described(called: Callable[..., Any]) -> None:
    described = inspect.getdoc(called) or ""
    named = [each.name for each in inspect.signature(called).parameters.values() if each.kind is not each.VAR_KEYWORD]
    assert [name for name in named if f"`{name}`" not in described] == []


def test_everything_that_is_exported_stands_in_the_reference() -> None:
    assert {function.__name__ for _, function in FUNCTIONS} == set(moldau.spark.__all__)


def test_fields_are_described_below_them() -> None:
    assert set(dict(field_notes(Progress))) == {field.name for field in dataclasses.fields(Progress)}


def test_a_signature_is_shown_as_it_is_written() -> None:
    assert signature(moldau.spark.write_batch) == (
        "write_batch(\n    batch: DataFrame,\n    batch_id: int,\n    options: Mapping[str, str],\n"
        "    query_id: str | None = None,\n) -> None"
    )
    assert "    *,\n    ui: bool = True,\n" in signature(moldau.spark.session)
