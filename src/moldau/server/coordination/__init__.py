"""Between the pure coordinators and the broker: their logs are partitions, their timers the loop's, their waits
futures.
"""
