"""A broker of an earlier release, as far as levels of features go: it knows transactions of the first kind only.

python -m tests.cluster.older_broker broker start …
"""

from __future__ import annotations

import sys

from moldau.cli.cluster.local_cluster import Command, Process
from moldau.metadata.controller import features

MODULE = "tests.cluster.older_broker"
OLDER = {**features.SUPPORTED_FEATURES, features.TRANSACTION_VERSION: features.SupportedRange(0, 1)}


def older(_member: Process, command: Command) -> Command:
    """Instead of the command that starts a broker of this release."""
    return [MODULE if word == "moldau" else word for word in command]


if __name__ == "__main__":
    features.SUPPORTED_FEATURES = OLDER
    from moldau.cli.main import run

    sys.exit(run(sys.argv[1:]))
