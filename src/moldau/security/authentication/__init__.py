"""Who is there: the states of a connection that logs in, and the broker's side of each SASL mechanism. Pure: time,
randomness and credentials are arguments.
"""
