"""The outlier alarm: a value over five deviations from a device's running mean. State is three numbers a device."""

import math
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from moldau.cli.demo.story import ALARM_DEVIATIONS, LEARNING_READINGS

STATE_SCHEMA = "count LONG, mean DOUBLE, squares DOUBLE"
ALARM_SCHEMA = "device STRING, server STRING, room STRING, time TIMESTAMP, value DOUBLE, usual DOUBLE"


class OutlierAlarm(StatefulProcessor):
    """Welford's running mean and variance per device; an outlier is reported and not learned from."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls this once per task."""
        self._learned = handle.getValueState("learned", STATE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The device's readings of this batch; oldest first, whatever order they came in."""
        count, mean, squares = self._learned.get() or (0, 0.0, 0.0)
        for row in sorted(rows, key=lambda row: (row.time, row.value)):
            if count >= LEARNING_READINGS and abs(row.value - mean) > ALARM_DEVIATIONS * math.sqrt(squares / count):
                yield Row(
                    device=row.device, server=row.server, room=row.room, time=row.time, value=row.value, usual=mean
                )
                continue
            count += 1
            step = row.value - mean
            mean += step / count
            squares += step * (row.value - mean)
        self._learned.update((count, mean, squares))

    def close(self) -> None:
        """Nothing is kept outside of the state."""
