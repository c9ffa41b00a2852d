"""What Python runs first in each of Spark's Python processes: it lets them import PySpark as compiled code.

Spark puts a zip that lies within the installed PySpark before everything else on their path. A zip keeps no compiled
code, so that each process compiles all it imports: half a second and more, for each start of a stream. The package
around the zip is the same code, compiled once. So the zips leave the path, if that package is found without them.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

HERE = os.path.dirname(__file__)
ZIP = os.path.join("pyspark", "python", "lib", "pyspark.zip")


def without_zips(path: Sequence[str]) -> list[str]:
    """The path without what lies within the PySpark that is installed on it; else as it is."""
    homes = {home_of(entry) for entry in path if entry.endswith(os.sep + ZIP)}
    if len(homes) != 1:
        return list(path)
    home = homes.pop()
    rest = [entry for entry in path if not entry.startswith(home + os.sep)]
    found = PathFinder.find_spec("pyspark", rest)
    if found is None or found.origin != os.path.join(home, "__init__.py"):
        return list(path)
    return list(path) if PathFinder.find_spec("py4j", rest) is None else rest


def home_of(zip_file: str) -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(zip_file)))


def run_the_one_behind(path: Sequence[str]) -> None:
    """Another `sitecustomize` on the path is not lost by this one."""
    behind = PathFinder.find_spec("sitecustomize", [entry for entry in path if entry != HERE])
    if behind is None or behind.loader is None:
        return
    sys.modules["sitecustomize"] = module = module_from_spec(behind)
    behind.loader.exec_module(module)


if __name__ == "sitecustomize":
    sys.path[:] = without_zips(sys.path)
    run_the_one_behind(sys.path)
