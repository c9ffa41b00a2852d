"""The demo's story: a small data centre. Names, tables and rules that generator, queries, proof and view share.

Servers answer web requests, and each carries two sensors. Sometimes a sensor reports an outlier; for a minute after it
some requests of its server fail. Events arrive late, out of order, or broken. Five topics come out of two:

    sensor-events, web-logs  ->  readings, requests, dead-letters  ->  alarms  ->  climate and incidents (Parquet)
"""

from dataclasses import dataclass

SENSOR_EVENTS = "sensor-events"
WEB_LOGS = "web-logs"
DEVICES = "devices"
READINGS = "readings"
REQUESTS = "requests"
DEAD_LETTERS = "dead-letters"
ALARMS = "alarms"
INPUT_TOPICS = (SENSOR_EVENTS, WEB_LOGS)
OUTPUT_TOPICS = (READINGS, REQUESTS, DEAD_LETTERS, ALARMS)

PARTITIONS = 2
ROOMS = ("north", "south", "west")
SERVERS = tuple(f"web-{number:02}" for number in range(1, 13))

WINDOW_SECONDS = 60
WATERMARK_SECONDS = 600
TOO_LATE_SECONDS = 180
"""An event that arrives this long after it happened goes to the dead letters instead of a result. It is less than the
watermark's delay by far more than two queries can drift apart, so that the watermark itself never drops a row."""

INCIDENT_SECONDS = 60
FAILED_STATUS = 500

LEARNING_READINGS = 30
ALARM_DEVIATIONS = 5.0


class Reason:
    """Why a record became a dead letter."""

    NOT_READABLE = "not readable"
    UNKNOWN_DEVICE = "unknown device"
    TOO_LATE = "too late"


@dataclass(frozen=True, slots=True)
class Device:
    """One row of the table that events are joined with."""

    device: str
    server: str
    room: str
    kind: str
    usual: float
    spread: float


def device_table() -> tuple[Device, ...]:
    """Every sensor there is: two per server."""
    return tuple(
        Device(f"{server}/{kind}", server, ROOMS[number % len(ROOMS)], kind, usual + number, spread)
        for number, server in enumerate(SERVERS)
        for kind, usual, spread in (("temperature", 40.0, 2.0), ("power", 300.0, 20.0))
    )
