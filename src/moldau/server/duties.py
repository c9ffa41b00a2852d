"""Which duties recur on a broker, and how often its settings ask for them."""

from __future__ import annotations

from collections.abc import Callable

from moldau.config.broker import BrokerConfig
from moldau.server.coordination.transactions import TransactionCoordinator
from moldau.server.listeners import Host, idle_sweep_seconds
from moldau.server.upkeep import Upkeep
from moldau.storage.manager import LogManager

MAX_FLUSH_CHECK_SECONDS = 5.0
FILE_DELETION_SECONDS = 1.0


def begin_duties(
    upkeep: Upkeep,
    config: BrokerConfig,
    logs: LogManager,
    host: Host,
    wall_ms: Callable[[], int],
    monotonic: Callable[[], float],
) -> None:
    first_after = config.log_initial_task_delay_ms / 1000
    retention = config.log_retention_check_interval_ms / 1000
    upkeep.every(retention, "retention", lambda: logs.run_retention(wall_ms()), first_after)
    upkeep.every(FILE_DELETION_SECONDS, "deletion of files", lambda: logs.delete_due(wall_ms()))
    flushing = min(config.log_flush_scheduler_interval_ms / 1000, MAX_FLUSH_CHECK_SECONDS)
    upkeep.every(flushing, "flushing by time", lambda: logs.flush_due(wall_ms()))
    recovery_points = config.log_flush_offset_checkpoint_interval_ms / 1000
    upkeep.every(recovery_points, "recovery points", logs.checkpoint_recovery_points)
    start_offsets = config.log_flush_start_offset_checkpoint_interval_ms / 1000
    upkeep.every(start_offsets, "start offsets", logs.checkpoint_start_offsets)
    high_watermarks = config.replica_high_watermark_checkpoint_interval_ms / 1000
    upkeep.every(high_watermarks, "high watermarks", logs.checkpoint_high_watermarks)
    producers = config.producer_id_expiration_check_interval_ms / 1000
    upkeep.every(producers, "expiry of producers", lambda: logs.expire_producers(wall_ms()))
    if config.log_cleaner_enable:
        # The one interval that can change while the broker runs.
        upkeep.every(lambda: logs.config.log_cleaner_backoff_ms / 1000, "cleaning", lambda: logs.clean_due(wall_ms()))
    upkeep.every(idle_sweep_seconds(config), "idle connections", lambda: host.sweep_idle(monotonic()))


def begin_transaction_duties(upkeep: Upkeep, config: BrokerConfig, transactions: TransactionCoordinator) -> None:
    overdue = config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
    upkeep.every(overdue, "abort of transactions that timed out", transactions.abort_overdue)
    expired = config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
    upkeep.every(expired, "expiry of transactional ids", transactions.expire_ids)
