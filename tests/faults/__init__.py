"""What must be survived: kills under load, hostile bytes, slow and idle connections.

Imports tests.support, and tests.cluster where there are several brokers.
"""
