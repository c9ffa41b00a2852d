"""Replication at work: tasks that follow leaders on other brokers, and the way of a leader's proposals to the
controller. The rules are in `replication`; here are the clock, the peers and the files.
"""
