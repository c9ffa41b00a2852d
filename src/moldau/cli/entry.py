"""Where the process begins. Starting a broker goes straight to it; other commands first import the command line."""

import sys


def main() -> None:
    """Run the command line; ends the process with the command's exit code."""
    if sys.argv[1:3] == ["broker", "start"]:
        from moldau.cli.broker import starting as broker_start

        sys.exit(broker_start.main(sys.argv[3:]))
    from moldau.cli.main import run

    sys.exit(run(sys.argv[1:]))
