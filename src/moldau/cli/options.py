"""What many commands take: the cluster they talk to, the format they print, whether they only say what they would
do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from moldau.cli import completion
from moldau.cli.connection import Connection, connect
from moldau.cli.output import Format, ReaderGone

CLUSTER_PANEL: Final = "Which cluster"

Output = Annotated[Format, typer.Option("--output", "-o", help="Tables for people; json and yaml for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FromFile = Annotated[
    Path | None,
    typer.Option("--from-file", "-f", metavar="FILE", help="JSON as `-o json` prints it; - is stdin."),
]

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=completion.topics)]
TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=completion.topics)]
TopicPatterns = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC...", help="Names, or patterns with * and ?.", autocompletion=completion.topics),
]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=completion.groups)]
GroupNames = Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=completion.groups)]

_Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="Brokers to ask first (else the profile's, MOLDAU_BOOTSTRAP_SERVERS, localhost:9092).",
        rich_help_panel=CLUSTER_PANEL,
    ),
]
_Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        metavar="NAME",
        help="A cluster saved with `moldau profile set` (else MOLDAU_PROFILE, or the one in use).",
        autocompletion=completion.profile_names,
        rich_help_panel=CLUSTER_PANEL,
    ),
]
_Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-X", metavar="KEY=VALUE", help="A client property, Java's name.", rich_help_panel=CLUSTER_PANEL
    ),
]
_CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Client properties as Kafka's tools take them.",
        rich_help_panel=CLUSTER_PANEL,
    ),
]
CONNECTION_OPTIONS: Final = {
    "bootstrap_server": (_Bootstrap, None),
    "profile": (_Profile, None),
    "config": (_Config, None),
    "command_config": (_CommandConfig, None),
}


def connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command whose first parameter is a Connection the options that say which."""
    (cluster, *own) = inspect.signature(function, eval_str=True).parameters.values()
    assert cluster.annotation is Connection, f"{function.__name__} takes a Connection first"

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        chosen = {name: values.pop(name) for name in CONNECTION_OPTIONS}
        connection = connect(
            chosen["bootstrap_server"], chosen["profile"], chosen["config"] or (), chosen["command_config"]
        )
        try:
            return function(connection, **values)
        except BrokenPipeError as error:
            # As an OSError it would end in typer, with exit code 1.
            raise ReaderGone from error
        finally:
            connection.close()

    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in CONNECTION_OPTIONS.items()
    ]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    command.__signature__ = inspect.Signature([*keywords, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*keywords, *options]}
    return command
