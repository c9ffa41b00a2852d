"""Three Moldau brokers over ZooKeeper and three Apache Kafka brokers under the same load."""
