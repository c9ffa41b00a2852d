"""Our Python clients beside bare confluent-kafka, and our schema registry beside any other that runs."""
