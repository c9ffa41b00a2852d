"""The mirror beside Apache Kafka's MirrorMaker 2: the same topics between the same two brokers."""
