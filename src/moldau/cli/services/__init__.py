"""`moldau registry`, `rest` and `services`: the HTTP services, started and asked."""
