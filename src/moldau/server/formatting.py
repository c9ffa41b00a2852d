"""Before the first start: the cluster is formed under a given id, with users that its brokers need to log in at each
other, and the log directories are given their identity.

The metadata come first, in one commit: whoever finds the cluster formed finds its users too. With ZooKeeper the first
broker that is formatted forms the cluster, and the others join it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata import paths
from moldau.metadata.controller.brokers import form_cluster
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER
from moldau.metadata.controller.min_insync import settings_of_a_new_cluster
from moldau.metadata.image_changes import build
from moldau.metadata.local import LocalStore, RunBlocking
from moldau.metadata.scram_users import encode_scram_user
from moldau.metadata.store import ABSENT, ClusterStore, Put, VersionConflictError
from moldau.storage import checkpoints
from moldau.storage.checkpoints import DirectoryProperties
from moldau.storage.files import FileSystem
from moldau.storage.log_directory import InconsistentDirectoryError
from moldau.storage.ownership import METADATA_FOLDER, refuse_foreign_directories
from moldau.types.credentials import ScramCredential

Users = Mapping[str, Mapping[str, ScramCredential]]
"""Credentials by user and mechanism."""


class OtherClusterError(Exception):
    """The metadata are those of another cluster."""


@dataclass(frozen=True, slots=True)
class Directories:
    """What was found in `log.dirs`."""

    empty: tuple[str, ...]
    formatted: tuple[str, ...]


def look_at_directories(files: FileSystem, config: BrokerConfig, cluster_id: str) -> Directories:
    """Only reads. Raises InconsistentDirectoryError for directories of another cluster or broker."""
    refuse_foreign_directories(files, config.log_dirs)
    formatted = []
    for directory in sorted(config.log_dirs):
        found = checkpoints.read_directory(files, directory)
        if found is None:
            continue
        where = os.path.join(directory, checkpoints.META_PROPERTIES)
        if found.cluster_id != cluster_id:
            raise InconsistentDirectoryError(
                f"Invalid cluster.id in: {where}. Expected {cluster_id}, but read {found.cluster_id}"
            )
        if found.node_id != config.node_id:
            raise InconsistentDirectoryError(
                f"Invalid node.id in: {where}. Expected {config.node_id}, but read {found.node_id}"
            )
        formatted.append(directory)
    empty = tuple(directory for directory in sorted(config.log_dirs) if directory not in formatted)
    return Directories(empty, tuple(formatted))


async def open_store(config: BrokerConfig, files: FileSystem, run_blocking: RunBlocking) -> ClusterStore:
    if config.zookeeper is not None:
        from moldau.metadata.zookeeper.opening import open_zookeeper_store

        return await open_zookeeper_store(config.zookeeper)
    return await LocalStore.open(os.path.join(config.log_dirs[0], METADATA_FOLDER), run_blocking, files=files)


async def form(
    store: ClusterStore, config: BrokerConfig, cluster_id: str, users: Users, features: Mapping[str, int]
) -> bool:
    """Whether the cluster is formed by this; if not, it was before, and its users are left as they are."""
    while True:
        image = build(await store.list("/"))
        if image.cluster_id is not None:
            if image.cluster_id != cluster_id:
                raise OtherClusterError(f"The metadata belong to cluster {image.cluster_id}, not to {cluster_id}")
            return False
        levels = {**FEATURES_OF_A_NEW_CLUSTER, **features}
        decision = form_cluster(image, cluster_id, levels, settings_of_a_new_cluster(config))
        added = [Put(paths.scram_user(user), encode_scram_user(found), ABSENT) for user, found in users.items()]
        try:
            await store.commit([*decision.operations, *added])
        except VersionConflictError:
            continue  # another broker is formatted at the same time
        return True


def identify(
    files: FileSystem, directories: Sequence[str], cluster_id: str, node_id: int, new_uuid: Callable[[], UUID]
) -> None:
    for directory in directories:
        if not files.is_directory(directory):
            os.makedirs(directory, exist_ok=True)
        checkpoints.write_directory(files, directory, DirectoryProperties(cluster_id, node_id, new_uuid()))
