"""Transforms and predicates: each makes other columns of the columns of the records, run by Spark and not by Python.

`base` is what they work on, `catalogue` their names; the modules beside hold them by what they change.
"""

from moldau.connect.transforms.base import Records, Stage

__all__ = ["Records", "Stage"]
