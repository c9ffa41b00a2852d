"""`moldau perf`, and the loads under Kafka's names for it."""
