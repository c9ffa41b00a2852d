"""All handlers by API key. ApiVersions announces exactly these."""

from __future__ import annotations

from moldau.server.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from moldau.server.registry import Api

HANDLERS = (
    produce, fetch, list_offsets, metadata, offset_fetch, find_coordinator, api_versions, create_topics, delete_topics,
    delete_records, init_producer_id, offset_for_leader_epoch, describe_configs, alter_configs, alter_replica_log_dirs,
    describe_log_dirs, create_partitions, incremental_alter_configs, describe_cluster, describe_producers,
    list_config_resources, describe_topic_partitions, elect_leaders,
    add_partitions_to_txn, add_offsets_to_txn, txn_offset_commit, end_txn, write_txn_markers, describe_transactions,
    list_transactions, update_features,
    offset_commit, join_group, heartbeat, leave_group, sync_group, describe_groups, list_groups, delete_groups,
    offset_delete, consumer_group_heartbeat, consumer_group_describe,
)  # fmt: skip

APIS: dict[int, Api] = {handler.API.key: handler.API for handler in HANDLERS}
