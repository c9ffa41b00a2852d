"""Where each kind of entry stands in the metadata store."""

from __future__ import annotations

from urllib.parse import quote, unquote
from uuid import UUID

from moldau.types.quotas import DEFAULT, QuotaEntity

CLUSTER = "/cluster"
CONTROLLER = "/controller"
FEATURES = "/features"
PRODUCER_IDS = "/producer-ids"
NODE_IDS = "/node-ids"
BROKERS = "/brokers"
TOPICS = "/topics"
TOPIC_CONFIGS = "/configs/topics"
BROKER_CONFIGS = "/configs/brokers"
ROLES = "/roles"
QUOTAS = "/quotas"

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


def scram_user(user: str) -> str:
    return f"/scram-users/{escaped(user)}"


def acl(acl_id: UUID) -> str:
    return f"/acls/{acl_id}"


def delegation_token(token_id: str) -> str:
    return f"/delegation-tokens/{escaped(token_id)}"


def role(name: str) -> str:
    return f"/roles/{escaped(name)}"


def quotas(entity: QuotaEntity) -> str:
    """`user:alice,client-id` are those of alice for whatever client id has no others."""
    parts = (kind if name is DEFAULT else f"{kind}:{escaped(name)}" for kind, name in entity)
    return f"/quotas/{','.join(parts)}"


def escaped(name: str) -> str:
    """A name of any characters as one part of a path."""
    text = quote(name, safe="")
    return text.replace(".", "%2E") if text in (".", "..") else text


def unescaped(part: str) -> str:
    return unquote(part)
