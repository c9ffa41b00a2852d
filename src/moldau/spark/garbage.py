"""Spark collects garbage in its Python workers after every task, and each time walks through all that is imported.

That takes longer than a small task. What is imported stays anyway, so it is set aside, once in a process.
"""

import gc
from functools import cache


@cache
def set_imports_aside() -> None:
    gc.collect()
    gc.freeze()
