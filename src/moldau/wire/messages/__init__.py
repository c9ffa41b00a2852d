"""One module per Kafka API, generated: a typed class per message holding the fields of all its versions."""
