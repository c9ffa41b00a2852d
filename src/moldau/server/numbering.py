"""Which number a broker has that was given none: the one in its log directories, else one that no other ever had."""

from __future__ import annotations

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError
from moldau.metadata.node_ids import next_node_id
from moldau.metadata.store import MetadataStore
from moldau.storage.checkpoints import read_directory
from moldau.storage.files import FileSystem
from moldau.storage.log_directory import InconsistentDirectoryError


async def numbered(config: BrokerConfig, store: MetadataStore, files: FileSystem) -> BrokerConfig:
    """The configuration with a number; as it is where it has one."""
    if not config.wants_number:
        return config
    found = {path: known.node_id for path in config.log_dirs if (known := read_directory(files, path)) is not None}
    if len(set(found.values())) > 1:
        told = ", ".join(f"{path} says {number}" for path, number in found.items())
        raise InconsistentDirectoryError(f"The log directories belong to different brokers: {told}.")
    if found:
        return config.numbered(next(iter(found.values())))
    if not config.broker_id_generation_enable:
        raise ConfigError("broker.id", None, "needed where broker.id.generation.enable=false")
    return config.numbered(await next_node_id(store, config.reserved_broker_max_id))
