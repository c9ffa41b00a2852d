"""The Kafka protocol without I/O: framing, message codecs, record batches, compression. Imports types and kernels
only.
"""
