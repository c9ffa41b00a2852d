"""Clusters that mirror each other: a hub, both ways, a standby. Each example runs brokers of its own."""
