"""One module per Kafka API: what it serves, what it leaves out (in its head comment), and an `API` that the
dispatcher calls.

Handlers import services of the broker, never each other. `catalogue` lists them all.
"""
