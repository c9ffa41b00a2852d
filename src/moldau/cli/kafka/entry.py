"""Where every `kafka-*` process begins: the name it was called by says which tool it is."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.cli.kafka.catalogue import LATER, TOOLS
from moldau.cli.kafka.options import ToolError, UsageError, VersionAsked

INTERRUPTED: Final = 130
NOT_SERVED: Final = 1
KAFKA_VERSION: Final = "4.3.0"
"""Whose tools these follow."""


def main() -> None:
    """Run the tool that this process is named after; ends the process."""
    sys.exit(run(Path(sys.argv[0]).name, sys.argv[1:]))


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a tool by its name, with or without `.sh`; returns its exit code."""
    name = name.removesuffix(".sh")
    if name in LATER:
        print(f"{name}: {LATER[name].missing}", file=sys.stderr)
        return NOT_SERVED
    if name not in TOOLS:
        print(f"{name} is none of the tools: {', '.join(TOOLS)}", file=sys.stderr)
        return NOT_SERVED
    module = importlib.import_module(f"moldau.cli.kafka.{TOOLS[name].module}")
    try:
        code: int = module.main(arguments)
        sys.stdout.flush()
        return code
    except UsageError as error:
        from moldau.cli.kafka.usage import usage

        print(error, usage(error.parser), sep="\n", file=sys.stderr)
        return error.exit_code
    except VersionAsked:
        print(version_line())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; what Python still holds must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return tell(error)
    finally:
        close_connections()


def close_connections() -> None:
    connecting = sys.modules.get("moldau.cli.kafka.connecting")
    if connecting is not None:
        connecting.close_all()


def tell(error: Exception) -> int:
    from moldau.cli.kafka.failures import is_failure, message_of

    if not is_failure(error):
        raise error
    print(message_of(error), file=sys.stderr)
    return error.exit_code if isinstance(error, ToolError) else 1


def version_line() -> str:
    from moldau.version import VERSION

    return f"{KAFKA_VERSION} (Moldau {VERSION})"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]))
