"""`moldau demo`: its options."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.output import CommandError


def demo(
    events: Annotated[int, typer.Option(min=4000, help="How many events the generator writes.")] = 120_000,
    seconds: Annotated[float, typer.Option(min=1, help="In how many seconds it writes them.")] = 60,
    story_minutes: Annotated[int, typer.Option(min=5, help="How much time passes in the events.")] = 30,
    seed: Annotated[int, typer.Option(help="Another seed, other events.")] = 1995,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", help="An existing Kafka cluster, instead of a broker of its own.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; local[*] if not given.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark's: spark.name=value; may repeat.")] = None,
    output: Annotated[Path, typer.Option(help="Where the pictures are saved.")] = Path("moldau-demo"),
    kill: Annotated[bool, typer.Option(help="Kill the Spark job once in the middle.")] = True,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="The broker alone: write, kill it, read.")] = False,
    records: Annotated[int, typer.Option(min=1000, help="With --no-spark: how many records to write.")] = 200_000,
    record_bytes: Annotated[int, typer.Option(min=8, help="With --no-spark: how large each record is.")] = 200,
    partitions: Annotated[int, typer.Option(min=1, help="With --no-spark: partitions of the topic.")] = 4,
) -> None:
    """Watch events flow through topics and Spark, a crash in the middle, and the proof that nothing was lost."""
    # A demo that is told to end must still end its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if no_spark:
        raise typer.Exit(0 if _broker_alone(records, record_bytes, partitions) else 1)
    _require_packages()
    from rich.console import Console

    from moldau.cli.demo import show

    plan = show.Plan(events, seconds, story_minutes, seed, output, bootstrap, master, _settings(conf or ()), kill)
    try:
        exact = show.run(Console(), plan)
    except show.DemoFailed as problem:
        raise CommandError(str(problem)) from None
    raise typer.Exit(0 if exact else 1)


def _broker_alone(records: int, record_bytes: int, partitions: int) -> bool:
    from rich.console import Console

    from moldau.cli.demo import crash

    with tempfile.TemporaryDirectory(prefix="moldau-demo-") as folder:
        return crash.run(Console(), Path(folder), records, record_bytes, partitions)


def _require_packages() -> None:
    """Find out at once what is missing, not after half a minute in a process without a face."""
    import importlib.util
    import os

    for package in ("pyspark", "pyarrow", "matplotlib"):
        if importlib.util.find_spec(package) is None:
            raise CommandError(
                f"{package} is not installed", hint="pip install 'moldau[demo]', or moldau demo --no-spark"
            )
    from moldau.spark.java import JavaMissing, find_java_home

    try:
        find_java_home(os.environ)
    except JavaMissing as problem:
        raise CommandError(str(problem), hint="or moldau demo --no-spark") from None


def _settings(given: list[str] | tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter(f"{setting!r} is not of the form spark.name=value", param_hint="--conf")
        settings[name] = value
    return settings
