"""Connect beside Apache Kafka's own worker, and its JDBC source under load."""
