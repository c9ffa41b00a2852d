"""Unmodified Kafka clients against a real broker process over real sockets. Imports tests.support and tests.peers."""
