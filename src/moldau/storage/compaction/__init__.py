"""Compaction of logs: choice of the log, rewriting, the swap of segments. May import what `storage` may.

plan          which log is due, which segments are rewritten into one (pure)
offset_map    the last offset of every key in the dirty part (pure)
transactions  which data is aborted, which markers are still needed (pure)
rewrite       what stays of a batch (pure, over bytes)
job           one log's cleaning: reads segments, writes `.cleaned` files
worker        the process that runs jobs
swap          `.cleaned` to `.swap` to the log, and what is done at start after a crash
cleaner       picks logs, hands jobs to the worker, swaps the results in
"""
