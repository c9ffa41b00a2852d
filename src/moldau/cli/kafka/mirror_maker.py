"""kafka-mirror-maker: copy topics from one cluster to another under their own names, as the books print it.

The program of Kafka before version 4, on the mirror of `moldau mirror`: each record once, its partition kept, positions
in the target (topic `mm2-offsets.source.internal`) and not in a group of the source. They belong to the consumer's
`group.id` and the cluster that is read: processes with the same group share the work, and have to name the same topics;
others know nothing of each other. A topic is read from its beginning unless `auto.offset.reset` says otherwise, where
the old program began at the end. `--num.streams` threads copy. Java classes (`--message.handler`,
`--consumer.rebalance.listener`) cannot be run.
"""

from __future__ import annotations

import hashlib
import logging
import re
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from moldau.cli.kafka.options import OptionError, Options, Parser, ToolError, flag, value

FORMER: Final = "source"
"""What every cluster that is read was called before each had a name of its own."""
JAVA: Final = ("message.handler", "message.handler.args", "consumer.rebalance.listener", "rebalance.listener.args")

PARSER: Final = Parser(
    "This tool helps to continuously copy data between two Kafka clusters.",
    value("consumer.config", "config file", "The properties of the consumer: the cluster that is read."),
    value("producer.config", "config file", "The properties of the producer: the cluster that is written."),
    value("num.streams", "number of threads", "How many threads copy.", kind=int, default="1"),
    value("include", "regex", "Topics to copy."),
    value("whitelist", "regex", hidden=True),
    value("blacklist", "regex", hidden=True),
    flag("new.consumer", hidden=True),
    value(
        "offset.commit.interval.ms", "ms", "Positions are stored with each transaction; this has no effect.", kind=int
    ),
    value("abort.on.send.failure", "true or false", "What fails is done again; this has no effect."),
    *(value(name, "class", "A Java class; it cannot be run here.") for name in JAVA),
)


def main(arguments: Sequence[str]) -> int:
    from moldau.client.errors import ClientError
    from moldau.mirror.running import Mirror
    from moldau.mirror.settings import MirrorSettingsError, read_settings
    from moldau.types.errors import KafkaError

    try:
        options = PARSER.parse(arguments)
    except OptionError as error:
        raise PARSER.wrong(str(error)) from None
    PARSER.require(options, "consumer.config", "producer.config")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings(mirror_properties(options))
    except (MirrorSettingsError, ClientError, KafkaError) as error:
        raise ToolError(str(error)) from None
    mirror = Mirror(replace(settings, flows=tuple(replace(flow, former_source=FORMER) for flow in settings.flows)))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    mirror.start()
    try:
        ended.wait()
    finally:
        mirror.stop()
    return 0


def mirror_properties(options: Options) -> dict[str, str]:
    for name in JAVA:
        if options.has(name):
            raise ToolError(f"--{name}: a Java class cannot be run here")
    wanted = options.text("include") or options.text("whitelist")
    if not wanted:
        raise PARSER.missing("include")
    read, written = of_cluster(options.text("consumer.config") or ""), of_cluster(options.text("producer.config") or "")
    source = name_of(read)
    found = {
        "clusters": f"{source}, target",
        f"{source}->target.enabled": "true",
        "offset.storage.topic": f"mm2-offsets.{FORMER}.internal",
        "topics": wanted,
        "topics.exclude": options.text("blacklist") or "",
        "replication.policy.class": "IdentityReplicationPolicy",
        "replication.factor": "-1",
        "tasks.max": options.text("num.streams") or "1",
        "refresh.topics.interval.seconds": "10",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "emit.offset-syncs.enabled": "false",
    }
    found |= {f"{source}.{key}": text for key, text in read.items()}
    return found | {f"target.{key}": text for key, text in written.items()}


def name_of(consumer: Mapping[str, str]) -> str:
    """Of the cluster that is read, as this group reads it: who has the same name shares lanes and positions."""
    from moldau.client.cluster import Cluster
    from moldau.client.settings import ClientSettings

    group = consumer.get("group.id", "")
    with Cluster(ClientSettings.from_properties(consumer)) as cluster:
        found = cluster.retrying(lambda: cluster.metadata([])).cluster_id or ""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", group)[:40]
    return f"{plain}-{hashlib.sha256(f'{found}/{group}'.encode()).hexdigest()[:12]}"


def of_cluster(file: str) -> dict[str, str]:
    from moldau.config import properties

    try:
        given = properties.read(Path(file))
    except (OSError, properties.PropertiesError) as error:
        raise ToolError(f"{file}: {error}") from None
    if "bootstrap.servers" not in given and "metadata.broker.list" in given:
        given["bootstrap.servers"] = given["metadata.broker.list"]
    if "bootstrap.servers" not in given:
        old = " (zookeeper.connect led there before Kafka 0.9)" if "zookeeper.connect" in given else ""
        raise ToolError(f"{file}: bootstrap.servers is missing{old}")
    oldest = {"smallest": "earliest", "largest": "latest"}
    if given.get("auto.offset.reset") in oldest:
        given["auto.offset.reset"] = oldest[given["auto.offset.reset"]]
    return given
