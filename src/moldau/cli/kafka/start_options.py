"""What the scripts that start something take before their own arguments."""

from __future__ import annotations

from collections.abc import Sequence


def without_start_options(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The rest, and whether it shall run in the background (`-daemon`). `-name` and `-loggc` have no meaning here."""
    left = list(arguments)
    daemon = False
    while left and left[0] in ("-daemon", "-name", "-loggc"):
        option = left.pop(0)
        daemon = daemon or option == "-daemon"
        if option == "-name" and left:
            left.pop(0)
    return left, daemon
