"""kafka-log-dirs: the log directories of brokers with the sizes of their partitions, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from moldau.cli.calls import cluster as cluster_calls
from moldau.cli.kafka.connecting import BOOTSTRAP, COMMAND_CONFIG, connect
from moldau.cli.kafka.failures import java_class
from moldau.cli.kafka.options import Parser, ToolError, flag, value
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsResult,
)

PARSER: Final = Parser(
    "This tool helps to query log directory usage on the specified brokers.",
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("describe", "REQUIRED: describe the log directories."),
    value("topic-list", "Topic list", "Topics, separated by commas; all without it.", default=""),
    value("broker-list", "Broker list", "Broker ids, separated by commas; all without it.", default=""),
)


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    PARSER.require(options, "bootstrap-server", "describe")
    topics = {each for each in options.given("topic-list").split(",") if each}
    wanted = broker_ids(options.given("broker-list"))
    cluster = connect(options)
    existing = cluster_calls.broker_ids(cluster)
    unknown = [broker for broker in wanted if broker not in existing]
    if unknown:
        raise ToolError(
            f"ERROR: The given brokers do not exist from --broker-list: {joined(unknown)}. "
            f"Current existent brokers: {joined(existing)}"
        )
    print("Querying brokers for log directories information")
    asked = wanted or existing
    answers = {broker: cluster_calls.log_dirs(cluster, broker) for broker in asked}
    print(f"Received log directory information from brokers {joined(asked)}")
    brokers = [
        {"broker": broker, "logDirs": [directory_json(directory, topics) for directory in answer]}
        for broker, answer in answers.items()
    ]
    print(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"), ensure_ascii=False))
    return 0


def directory_json(directory: DescribeLogDirsResult, topics: set[str]) -> dict[str, Any]:
    partitions = [
        {
            "partition": f"{topic.name}-{each.partition_index}",
            "size": each.partition_size,
            "offsetLag": each.offset_lag,
            "isFuture": each.is_future_key,
        }
        for topic in directory.topics
        if not topics or topic.name in topics
        for each in topic.partitions
    ]
    error = java_class(directory.error_code) if directory.error_code else None
    return {"partitions": partitions, "error": error, "logDir": directory.log_dir}


def broker_ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",") if each]
    except ValueError:
        raise ToolError(f"--broker-list expects broker ids separated by commas, but received: {text}") from None


def joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
