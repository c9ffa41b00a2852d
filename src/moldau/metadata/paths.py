"""Where each kind of entry stands in the metadata store."""

from __future__ import annotations

from urllib.parse import quote, unquote

CLUSTER = "/cluster"
CONTROLLER = "/controller"
FEATURES = "/features"
PRODUCER_IDS = "/producer-ids"
BROKERS = "/brokers"
BROKER_STATES = "/broker-states"
TOPICS = "/topics"
TOPIC_CONFIGS = "/configs/topics"
BROKER_CONFIGS = "/configs/brokers"
GROUP_CONFIGS = "/configs/groups"
CLIENT_METRICS_CONFIGS = "/configs/client-metrics"

DEFAULT_BROKER = "default"
"""In the place of a broker's id: the settings of all brokers."""


def broker(broker_id: int) -> str:
    return f"/brokers/{broker_id}"


def broker_state(broker_id: int) -> str:
    return f"/broker-states/{broker_id}"


def topic(name: str) -> str:
    return f"/topics/{name}"


def partition(topic_name: str, index: int) -> str:
    return f"/topics/{topic_name}/partitions/{index}"


def topic_config(name: str) -> str:
    return f"/configs/topics/{name}"


def broker_config(broker_id: int | None) -> str:
    return f"/configs/brokers/{DEFAULT_BROKER if broker_id is None else broker_id}"


def group_config(group: str) -> str:
    return f"/configs/groups/{escaped(group)}"


def client_metrics_config(subscription: str) -> str:
    return f"/configs/client-metrics/{escaped(subscription)}"


def escaped(name: str) -> str:
    """A name of any characters as one part of a path."""
    text = quote(name, safe="")
    return text.replace(".", "%2E") if text in (".", "..") else text


def unescaped(part: str) -> str:
    return unquote(part)
