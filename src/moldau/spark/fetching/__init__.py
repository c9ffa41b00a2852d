"""What a task does: fetches the raw batches of its split and builds Arrow batches of them.

Imports `client`, the kernels, and `split`, the work of one task.
"""
