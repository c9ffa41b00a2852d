"""Which query a batch of `foreachBatch` belongs to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from moldau.spark import exactly_once

OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t"}


class Writer:
    def __init__(self) -> None:
        self.taken: dict[str, str] = {}

    def format(self, name: str) -> Writer:
        return self

    def mode(self, name: str) -> Writer:
        return self

    def options(self, **options: str) -> Writer:
        self.taken = options
        return self

    def save(self) -> None:
        """Nothing is written."""


class ConnectSession:
    @property
    def sparkContext(self) -> Any:  # noqa: N802
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "x"})


def test_spark_connect_does_not_tell_and_so_the_user_has_to() -> None:
    writer = Writer()
    batch = cast(DataFrame, SimpleNamespace(sparkSession=ConnectSession(), write=writer))
    with pytest.raises(ValueError, match=r"Spark Connect does not tell .* give a query_id"):
        exactly_once(OPTIONS)(batch, 7)
    assert writer.taken == {}
    exactly_once(OPTIONS, query_id="nightly")(batch, 7)
    assert writer.taken == {**OPTIONS, "queryId": "nightly", "batchId": "7", "delivery": "exactly-once"}
