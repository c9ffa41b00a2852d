"""Moldau and Apache Kafka side by side under the same load. May import tests.peers, tests.support and scripts."""
