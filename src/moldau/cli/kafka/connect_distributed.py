"""connect-distributed: run one worker of a group that shares connectors.

`-daemon` puts it into the background; `-name` and `-loggc` are accepted. Connectors are Python classes: see
`moldau.connect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

USAGE: Final = "USAGE: connect-distributed [-daemon] connect-distributed.properties"


def main(arguments: Sequence[str]) -> int:
    from moldau.cli.connectors import starting as connect_start

    left = connect_start.without_java_options(arguments)
    if len(left.files) != 1 or left.files[0] in ("--help", "-h"):
        return connect_start.usage(USAGE)
    if left.daemon:
        return connect_start.in_background("distributed", left.files)
    return connect_start.tell(lambda: connect_start.distributed(left.files[0], []))
