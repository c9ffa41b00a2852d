"""The `kafka-*` tools, played beside Apache Kafka's own: what those print is kept in tests/cli/recorded."""
