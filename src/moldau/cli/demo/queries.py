"""The demo's three queries as plain functions from DataFrames to DataFrames; they would run on a batch as well.

clean    parse, join with the device table, sort out what cannot be used       -> topics
alarms   five deviations from a device's running mean (transformWithState)     -> a topic
results  readings per window; alarms joined with the requests that failed      -> Parquet
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from moldau.cli.demo import story
from moldau.cli.demo.alarm import ALARM_SCHEMA, OutlierAlarm
from moldau.cli.demo.story import Reason

SENSOR_SCHEMA = "device STRING, time TIMESTAMP, value DOUBLE"
WEB_LOG_SCHEMA = (
    "host STRING, server STRING, timestamp TIMESTAMP, request STRING, http_reply INT, bytes LONG"  # as the book has it
)
DEVICE_SCHEMA = "device STRING, server STRING, room STRING, kind STRING"
READING_SCHEMA = "device STRING, server STRING, room STRING, kind STRING, time TIMESTAMP, value DOUBLE"
REQUEST_SCHEMA = "server STRING, time TIMESTAMP, host STRING, url STRING, status INT, bytes LONG"
URL = r"^\w+ (\S+)"


def device_table(records: DataFrame) -> DataFrame:
    """The newest row of each device, from the records of the table's topic."""
    rows = records.select("key", "offset", F.from_json(F.col("value").cast("string"), DEVICE_SCHEMA).alias("row"))
    return rows.groupBy("key").agg(F.max_by("row", "offset").alias("row")).select("row.*")


def clean(raw: DataFrame, devices: DataFrame, topics: Mapping[str, str]) -> DataFrame:
    """Records of both inputs to records for the topics of readings, requests and dead letters."""
    text = F.col("value").cast("string")
    is_sensor = F.col("topic") == topics[story.SENSOR_EVENTS]
    parsed = raw.select(
        *("topic", "partition", "offset", "timestamp", "key", "value"),
        F.when(is_sensor, F.from_json(text, SENSOR_SCHEMA)).alias("sensor"),
        F.when(~is_sensor, F.from_json(text, WEB_LOG_SCHEMA)).alias("web"),
    )
    known = devices.select(F.struct("*").alias("known"))
    joined = parsed.join(F.broadcast(known), F.col("sensor.device") == F.col("known.device"), "left")
    return joined.select("*", _problem(is_sensor).alias("problem")).select(
        F.when(F.col("problem").isNotNull(), topics[story.DEAD_LETTERS])
        .when(is_sensor, topics[story.READINGS])
        .otherwise(topics[story.REQUESTS])
        .alias("topic"),
        F.when(F.col("problem").isNotNull(), F.col("key"))
        .otherwise(F.coalesce("sensor.device", "web.server").cast("binary"))
        .alias("key"),
        F.when(F.col("problem").isNotNull(), F.col("value"))
        .when(is_sensor, _reading())
        .otherwise(_request())
        .alias("value"),
        F.when(F.col("problem").isNotNull(), _origin()).alias("headers"),
    )


def _problem(is_sensor: Column) -> Column:
    time = F.when(is_sensor, F.col("sensor.time")).otherwise(F.col("web.timestamp"))
    sensor_readable = F.col("sensor.device").isNotNull() & F.col("sensor.value").isNotNull()
    web_readable = F.col("web.server").isNotNull() & F.col("web.http_reply").isNotNull()
    readable = time.isNotNull() & F.when(is_sensor, sensor_readable).otherwise(web_readable)
    latest = F.col("timestamp") - F.expr(f"INTERVAL {story.TOO_LATE_SECONDS} SECONDS")
    return (
        F.when(~F.coalesce(readable, F.lit(False)), Reason.NOT_READABLE)
        .when(is_sensor & F.col("known").isNull(), Reason.UNKNOWN_DEVICE)
        .when(time < latest, Reason.TOO_LATE)
    )


def _reading() -> Column:
    names = ("known.device", "known.server", "known.room", "known.kind", "sensor.time", "sensor.value")
    return F.to_json(F.struct(*names)).cast("binary")


def _request() -> Column:
    return F.to_json(
        F.struct(
            "web.server",
            F.col("web.timestamp").alias("time"),
            "web.host",
            F.regexp_extract("web.request", URL, 1).alias("url"),
            F.col("web.http_reply").alias("status"),
            "web.bytes",
        )
    ).cast("binary")


def _origin() -> Column:
    """Headers that say what is wrong with a dead letter and where it stood."""
    named = {"problem": F.col("problem"), "topic": F.col("topic"), "partition": F.col("partition")}
    named["offset"] = F.col("offset")
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in named.items()
        )
    )


def alarms(readings: DataFrame, topic: str) -> DataFrame:
    """Records of the readings' topic to records of alarms."""
    found = (
        _values(readings, READING_SCHEMA)
        .groupBy("device")
        .transformWithState(OutlierAlarm(), ALARM_SCHEMA, outputMode="Append", timeMode="None")
    )
    return found.select(
        F.lit(topic).alias("topic"),
        F.col("device").cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )


def results(readings: DataFrame, requests: DataFrame, alarms: DataFrame) -> DataFrame:
    """Two kinds of rows: the climate of each room per window, once it is final, and incidents."""
    return _climate(readings).unionByName(_incidents(requests, alarms), allowMissingColumns=True)


def _climate(readings: DataFrame) -> DataFrame:
    value = F.col("value").cast("decimal(12,1)")
    return (
        _with_watermark(_values(readings, READING_SCHEMA))
        .groupBy(F.window("time", f"{story.WINDOW_SECONDS} seconds").alias("window"), "room", "kind")
        .agg(
            F.count("*").alias("readings"),
            F.min(value).alias("lowest"),
            F.max(value).alias("highest"),
            F.sum(value).cast("decimal(18,1)").alias("total"),
        )
        .select(F.lit("climate").alias("result"), "room", "kind", F.col("window.start").alias("start"), "readings",
                "lowest", "highest", "total")
    )  # fmt: skip


def _incidents(requests: DataFrame, alarms: DataFrame) -> DataFrame:
    failed = _with_watermark(_values(requests, REQUEST_SCHEMA)).where(F.col("status") >= story.FAILED_STATUS)
    failed = failed.select(F.col("server").alias("failed_server"), F.col("time").alias("failed_at"), "url")
    raised = _with_watermark(_values(alarms, ALARM_SCHEMA)).select("server", "device", "room", "time")
    soon = F.expr(f"failed_at BETWEEN time AND time + INTERVAL {story.INCIDENT_SECONDS} SECONDS")
    joined = raised.join(failed, (F.col("server") == F.col("failed_server")) & soon)
    return joined.select(
        F.lit("incidents").alias("result"),
        "room",
        "server",
        "device",
        F.col("time").alias("alarm_at"),
        "failed_at",
        "url",
    )


def _with_watermark(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("time", f"{story.WATERMARK_SECONDS} seconds")


def _values(records: DataFrame, schema: str) -> DataFrame:
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


def read_topics(spark: SparkSession, bootstrap: str, group: str, *topics: str) -> DataFrame:
    """A stream of these topics from their beginning; the group is told how far it has come."""
    options = {**_source(bootstrap, topics), "kafka.group.id": group}
    return spark.readStream.format("moldau").options(**options).load()


def read_table(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """All records of a topic, once."""
    return spark.read.format("moldau").options(**_source(bootstrap, (topic,))).load()


def _source(bootstrap: str, topics: tuple[str, ...]) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": ",".join(topics),
        "startingOffsets": "earliest",
    }
