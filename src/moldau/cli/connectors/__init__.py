"""`moldau connect` and the start of the `connect-*` tools: the workers of Kafka Connect."""
