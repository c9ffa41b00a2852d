"""connect-standalone: run connectors in one process.

`-daemon` puts it into the background; `-name` and `-loggc` are accepted. Connectors are Python classes: see
`moldau.connect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

USAGE: Final = (
    "USAGE: connect-standalone [-daemon] connect-standalone.properties [connector1.properties connector2.json ...]"
)


def main(arguments: Sequence[str]) -> int:
    from moldau.cli.connectors import starting as connect_start

    left = connect_start.without_java_options(arguments)
    if not left.files or left.files[0] in ("--help", "-h"):
        return connect_start.usage(USAGE)
    if left.daemon:
        return connect_start.in_background("standalone", left.files)
    return connect_start.tell(lambda: connect_start.standalone(left.files[0], left.files[1:], []))
