"""What Spark was told before the program began: by `spark-submit`, PYSPARK_SUBMIT_ARGS and `spark-defaults.conf`.

Settings on a session's builder win over all of these, so whoever has defaults must know what was said.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set where Java runs already, because `spark-submit` has started this program."""
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
FILE = "spark-defaults.conf"
SEPARATOR = re.compile(r"\s*[=:\s]\s*")
FLAGS = {"--master": "spark.master", "--name": "spark.app.name"}


def is_submitted(environment: Mapping[str, str]) -> bool:
    return GATEWAY in environment


def submitted_settings(environment: Mapping[str, str]) -> dict[str, str]:
    if is_submitted(environment):
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    arguments = shlex.split(environment.get(ARGUMENTS, ""))
    return {**_file_settings(_file(environment)), **dict(_argument_settings(arguments))}


def _file(environment: Mapping[str, str]) -> Path:
    folder = environment.get("SPARK_CONF_DIR")
    if folder:
        return Path(folder) / FILE
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "conf" / FILE


def _file_settings(path: Path) -> dict[str, str]:
    if not os.access(path, os.R_OK):
        return {}
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [SEPARATOR.split(line, maxsplit=1) for line in lines if line and line[0] not in "#!"]
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def _argument_settings(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those that have a meaning here, as `--conf key=value` and `--master url`."""
    for flag, value in pairwise(arguments):
        if flag in ("--conf", "-c") and "=" in value:
            key, _, text = value.partition("=")
            yield key, text
        elif flag in FLAGS:
            yield FLAGS[flag], value
