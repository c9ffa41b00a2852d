"""Ids, offsets, epochs and error codes that every other package may use. Imports nothing of ours."""
