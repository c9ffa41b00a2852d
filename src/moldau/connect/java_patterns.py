"""Whether Java takes a regular expression: Spark runs transforms with Java's."""

from __future__ import annotations

import re
from typing import Any, Final

from moldau.config.definition import ConfigError

JAVAS_OWN: Final = re.compile(r"\\[pPQEhHvVRXkG]|&&|\[[^\]]*\[|\(\?[a-zA-Z]*-?[a-zA-Z]+[:)]|[*+?}]\+")
"""What Python does not know, or reads differently."""


def java_pattern(name: str, value: Any) -> None:
    """A rule of a setting. Java is asked where it runs; else Python, who is not asked of what only Java has."""
    if value is None:
        return
    problem = problem_of(str(value))
    if problem is not None:
        raise ConfigError(name, str(value), f"entry must be a regular expression: {problem}")


def problem_of(pattern: str) -> str | None:
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    return pythons_problem(pattern) if session is None else javas_problem(session._jvm, pattern)


def javas_problem(jvm: Any, pattern: str) -> str | None:
    from pyspark.errors import IllegalArgumentException

    try:
        jvm.java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:  # what PySpark makes of PatternSyntaxException
        return str(error).partition("\n")[0]
    return None


def pythons_problem(pattern: str) -> str | None:
    if JAVAS_OWN.search(pattern):
        return None
    try:
        re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern))
    except re.error as error:
        return str(error)
    return None
