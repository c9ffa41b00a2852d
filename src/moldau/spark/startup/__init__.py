"""A folder for the path of Spark's Python processes (`session` puts it there): Python runs its `sitecustomize` first.

Imports the standard library only, and little of that.
"""
