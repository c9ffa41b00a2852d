"""Logs on disk: segments, indexes, recovery, retention, folders. May import wire, kernels, config, metrics, types."""
