"""The listings of the Kafka books that use clients, in Python; each file runs alone and is run by the tests."""
