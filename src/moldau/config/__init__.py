"""Kafka's settings: their definitions, the broker's and the topics' typed views, and how they are described to clients.

May import `moldau.types`, `moldau.kernels` and `moldau.wire` (today it needs none of them). The only I/O is reading the
tables that lie in this folder.
"""
