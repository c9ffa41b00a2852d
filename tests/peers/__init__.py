"""Other brokers, started beside ours for comparison. Imports tests.support only."""
