"""The reference page of the clients, from signatures and docstrings: every name that programs use."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

MODULES: Final = r"\b(?:\w+\.)+(?=[A-Z])"
CLIENTS: Final = (
    ("moldau", "moldau.clients.producer", "Producer"),
    ("moldau", "moldau.clients.consumer", "Consumer"),
    ("moldau", "moldau.clients.admin", "Admin"),
    ("moldau.clients.delivery", "moldau.clients.delivery", "Delivery"),
    ("moldau.clients.transactions", "moldau.clients.transactions", "Transaction"),
)
OTHERS: Final = (
    ("Records", "records", (
        "ProducerRecord", "RecordMetadata", "ConsumerRecord", "ConsumerRecords", "TopicPartition", "OffsetAndMetadata",
        "OffsetAndTimestamp", "PartitionInfo",
    )),
    ("Serializers", "serializers", (
        "Serializer", "Deserializer", "Bytes", "String", "Number", "Uuid", "Json", "Void",
    )),
    ("Serializers with a schema registry", "registered", ("Avro", "JsonSchema")),
    ("Protobuf", "protobuf", ("Protobuf",)),
    ("Partitioners", "partitioners", (
        "Partitioner", "Default", "RoundRobin", "LastForSome", "SpecialKeys", "Cluster",
    )),
    ("Interceptors", "interceptors", ("ProducerInterceptor", "ConsumerInterceptor")),
    ("Listeners", "rebalancing", ("RebalanceListener",)),
    ("Administration", "admin_types", (
        "NewTopic", "TopicInfo", "ConfigEntry", "GroupListing", "GroupMember", "GroupInfo", "BrokerInfo", "ClusterInfo",
        "AclBinding", "AclFilter", "AdminFailed",
    )),
    ("Administration beside librdkafka", "wire_admin", ("Reassignment", "LogDir", "Quota")),
    ("Transactions, tokens and the quorum", "cluster_admin", (
        "Listed", "Described", "ProducerInfo", "DelegationToken", "Quorum",
    )),
    ("Errors", "errors", (
        "KafkaFailure", "DeliveryFailed", "RecordTooLarge", "BufferExhausted", "UndeliveredRecords", "UnknownTopic",
        "TimedOut", "AuthorizationFailed", "CommitFailed", "NoOffset", "ProducerFenced", "TransactionAborted",
        "SerializationFailed", "DeserializationFailed", "InvalidRecord", "ConcurrentUse", "Wakeup", "SettingError",
    )),
)  # fmt: skip


def markdown() -> str:
    lines = [
        "# Python clients",
        "",
        (
            "Written by `make docs` from signatures and docstrings. How they are used stands in "
            "[Produce and consume from Python](../howto/python-clients.md). `from moldau import aio` gives "
            "`aio.Producer`, `aio.Consumer` and `aio.Admin` with the same calls, awaited."
        ),
    ]
    for shown, module, name in CLIENTS:
        lines += ["", *client_section(shown, getattr(importlib.import_module(module), name))]
    for title, part, names in OTHERS:
        module = f"moldau.clients.{part}"
        lines += ["", f"## {title}", "", f"From `{module}`:", "", "| name | |", "|---|---|"]
        found = importlib.import_module(module)
        lines += [f"| `{name}` | {cell(getattr(found, name))} |" for name in names]
    return "\n".join(lines) + "\n"


def client_section(module: str, kind: type[Any]) -> Iterator[str]:
    yield from (
        f"## {kind.__name__}",
        "",
        "```text",
        f"from {module} import {kind.__name__}",
        "```",
        "",
        prose(kind),
        "",
    )
    yield "| call | |"
    yield "|---|---|"
    for name, method in inspect.getmembers(kind):
        if not name.startswith("_") and callable(method):
            yield f"| `{name}{signature(method)}` | {cell(method)} |"


def signature(method: Any) -> str:
    """Without `self`; annotations as they are written, names of modules left out."""
    found = inspect.signature(method)
    wanted = [each for each in found.parameters.values() if each.name != "self"]
    text = str(found.replace(parameters=wanted)).replace("'", "")
    return re.sub(MODULES, "", text).replace("|", "\\|")


def prose(documented: object) -> str:
    paragraphs = inspect.cleandoc(inspect.getdoc(documented) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def cell(documented: object) -> str:
    own = getattr(documented, "__doc__", None) or ""
    # A dataclass or named tuple without words of its own documents its signature.
    name = getattr(documented, "__name__", "")
    if own.startswith(f"{name}(") and callable(documented):
        fields = getattr(documented, "_fields", None) or inspect.signature(documented).parameters
        own = ", ".join(f"`{field}`" for field in fields)
    return " ".join(own.split()).replace("|", "\\|")
