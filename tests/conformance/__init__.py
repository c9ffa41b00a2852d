"""Duty: a scripted set of requests and Apache Kafka 4.3's answers to it; may import kio and third parties, not moldau.

The set is played through sockets: the same script runs against Apache Kafka (to record) and Moldau (to compare).
"""
