"""The data source, sessions, the demo and the examples on real Spark sessions, against a real broker."""
