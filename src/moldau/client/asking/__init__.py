"""What a cluster is asked that librdkafka has no calls for: for the command line and for `moldau.clients.Admin`."""
