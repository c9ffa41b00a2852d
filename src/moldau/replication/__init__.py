"""Rules of a replicated partition: leader and follower state, in-sync set, high watermark, waiting requests, fetch
sessions.

Pure: no clock, socket or task inside. May import storage (a partition owns a log) and metadata (its state comes from
the image).
"""
