"""What is imported is set aside from the collection of garbage, once in a process."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import gc
from moldau.spark.garbage import set_imports_aside
counts = [gc.get_freeze_count()]
set_imports_aside()
counts.append(gc.get_freeze_count())
later = [[] for _ in range(1000)]
set_imports_aside()
counts.append(gc.get_freeze_count())
print(counts[0] == 0, counts[1] > 1000, abs(counts[2] - counts[1]) < 100)
"""


def test_what_came_after_the_first_time_is_collected_as_ever() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
