"""The commands as a user runs them, against a real broker."""
