"""Which duties recur on a broker, and how often its settings ask for them."""

from __future__ import annotations

from collections.abc import Callable

from moldau.config.broker import BrokerConfig
from moldau.server.coordination.transactions import TransactionCoordinator
from moldau.server.listeners import Host, idle_sweep_seconds
from moldau.server.timers import Timers
from moldau.storage.manager import LogManager

MAX_FLUSH_CHECK_SECONDS = 5.0
FILE_DELETION_SECONDS = 1.0


def begin_duties(
    timers: Timers,
    config: BrokerConfig,
    logs: LogManager,
    host: Host,
    wall_ms: Callable[[], int],
    monotonic: Callable[[], float],
) -> None:
    first_after = config.log_initial_task_delay_ms / 1000
    retention = config.log_retention_check_interval_ms / 1000
    timers.every(retention, "retention", lambda: logs.retaining.run(wall_ms()), first_after)
    timers.every(FILE_DELETION_SECONDS, "deletion of files", lambda: logs.removal.run_due(wall_ms()))
    flushing = min(config.log_flush_scheduler_interval_ms / 1000, MAX_FLUSH_CHECK_SECONDS)
    timers.every(flushing, "flushing by time", lambda: logs.flushes.flush_due(wall_ms()))
    recovery_points = config.log_flush_offset_checkpoint_interval_ms / 1000
    timers.every(recovery_points, "recovery points", logs.checkpoints.write_recovery_points)
    start_offsets = config.log_flush_start_offset_checkpoint_interval_ms / 1000
    timers.every(start_offsets, "start offsets", logs.checkpoints.write_start_offsets)
    high_watermarks = config.replica_high_watermark_checkpoint_interval_ms / 1000
    timers.every(high_watermarks, "high watermarks", logs.checkpoints.write_high_watermarks)
    producers = config.producer_id_expiration_check_interval_ms / 1000
    timers.every(producers, "expiry of producers", lambda: logs.expire_producers(wall_ms()))
    if config.log_cleaner_enable:
        # The one interval that can change while the broker runs.
        timers.every(
            lambda: logs.config.log_cleaner_backoff_ms / 1000, "cleaning", lambda: logs.cleaner.clean_due(wall_ms())
        )
    timers.every(idle_sweep_seconds(config), "idle connections", lambda: host.sweep_idle(monotonic()))


def begin_transaction_duties(timers: Timers, config: BrokerConfig, transactions: TransactionCoordinator) -> None:
    overdue = config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
    timers.every(overdue, "abort of transactions that timed out", transactions.abort_overdue)
    expired = config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
    timers.every(expired, "expiry of transactional ids", transactions.expire_ids)
