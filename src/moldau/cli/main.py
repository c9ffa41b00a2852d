"""The `moldau` command: its nouns. The process enters through `moldau.cli.entry`.

A noun's module is imported only when the noun is typed, or when all are needed (help, completion, documentation).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from moldau.cli.output import DONE, FAILED, INTERRUPTED, UNREACHABLE, WRONG_USAGE, CommandError, ReaderGone
from moldau.version import VERSION

TRACEBACK_VARIABLE: Final = "MOLDAU_TRACEBACK"
COMPLETION_VARIABLE: Final = "_MOLDAU_COMPLETE"
# typer exports one kind of usage error; all of them share its base.
UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]


@dataclass(frozen=True, slots=True)
class Noun:
    name: str
    module: str
    attribute: str = "app"
    """A typer app with verbs, or a function that is the command itself."""


NOUNS: Final = (
    Noun("broker", "moldau.cli.broker.command"),
    Noun("topic", "moldau.cli.topic.command"),
    Noun("produce", "moldau.cli.records.produce", "produce"),
    Noun("consume", "moldau.cli.records.consume", "consume"),
    Noun("tail", "moldau.cli.records.consume", "tail"),
    Noun("perf", "moldau.cli.perf.command"),
    Noun("group", "moldau.cli.group.command"),
    Noun("config", "moldau.cli.config.command"),
    Noun("cluster", "moldau.cli.cluster.command"),
    Noun("zookeeper", "moldau.cli.zookeeper.command"),
    Noun("registry", "moldau.cli.services.registry"),
    Noun("security", "moldau.cli.security.command"),
    Noun("mirror", "moldau.cli.mirror.command"),
    Noun("rest", "moldau.cli.services.rest"),
    Noun("services", "moldau.cli.services.command"),
    Noun("connect", "moldau.cli.connectors.command"),
    Noun("txn", "moldau.cli.txn.command"),
    Noun("log", "moldau.cli.log.command"),
    Noun("profile", "moldau.cli.profile.command"),
    Noun("kafka-tools", "moldau.cli.kafka_tools", "kafka_tools"),
    Noun("demo", "moldau.cli.demo.command", "demo"),
)


def build(wanted: str | None = None) -> typer.Typer:
    """The command with the noun that is wanted, or with all of them."""
    app = typer.Typer(
        name="moldau",
        help="A streaming platform for Python data teams: a broker that speaks the Kafka protocol, and its tools.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for noun in [noun for noun in NOUNS if noun.name == wanted] or NOUNS:
        found = getattr(importlib.import_module(noun.module), noun.attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=noun.name)
        else:
            app.command(noun.name)(found)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"moldau {VERSION}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options that stand before a command."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code. What goes wrong is one line on stderr."""
    completing = COMPLETION_VARIABLE in os.environ
    wanted = None if completing or not arguments else arguments[0]
    try:
        ended = build(wanted)(args=list(arguments), prog_name="moldau", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        return _wrong_usage(error)
    except CommandError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort as error:
        return INTERRUPTED if _was_interrupted(error) else _failed("nothing was done", FAILED)
    except (BrokenPipeError, ReaderGone):
        # Python shall not complain about what it cannot write at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        return INTERRUPTED if _was_interrupted(error) else _unforeseen(error)
    return ended if isinstance(ended, int) else DONE


def _was_interrupted(error: BaseException | None) -> bool:
    """Ctrl-C may come out of a compiled client as another error, with itself as the cause."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _wrong_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(str(error.format_message()), file=sys.stderr)  # type: ignore[attr-defined]
        return WRONG_USAGE
    command = context.command_path if context is not None else "moldau"
    message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    return _failed(f"{message} (`{command} --help` shows what it takes)", WRONG_USAGE)


def _unforeseen(error: Exception) -> int:
    """Errors of clients are told by what they are; anything else is ours, and says how to see more."""
    from confluent_kafka import KafkaException

    from moldau.client.errors import AuthenticationFailed, ClientError, ConnectionLost, SettingError
    from moldau.types.errors import KafkaError

    if os.environ.get(TRACEBACK_VARIABLE):
        import traceback

        traceback.print_exception(error)
        return FAILED
    match error:
        case SettingError():
            return _failed(str(error), WRONG_USAGE)
        case ConnectionLost() | AuthenticationFailed():
            return _failed(str(error), UNREACHABLE)
        case KafkaException():
            return _failed(str(error.args[0].str()), FAILED)
        case ClientError() | KafkaError() | OSError():
            return _failed(str(error), FAILED)
    what = f"{type(error).__name__}: {error}"
    return _failed(f"a fault of this command, please report it: {what} ({TRACEBACK_VARIABLE}=1 shows where)", FAILED)


def _failed(message: str, code: int) -> int:
    sys.stdout.flush()
    print(f"moldau: {' '.join(message.split())}", file=sys.stderr)
    return code
