"""How the partitions of a consumer group are dealt out: pure functions from subscriptions to assignments.

May import types only.
"""
