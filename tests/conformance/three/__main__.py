import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import recording
from tests.conformance.command import KAFKA
from tests.conformance.three import __doc__ as about
from tests.conformance.three.clusters import KafkaNodes, MoldauNodes
from tests.conformance.three.comparing import RECORDED, differences
from tests.conformance.three.scenarios import scripts
from tests.conformance.three.stage import play


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("scenarios", nargs="*", help="all of them if none is given")
    chosen = parser.parse_args(arguments)
    names = chosen.scenarios or list(scripts)
    found = 0
    with tempfile.TemporaryDirectory(prefix="moldau-conformance-") as folder:
        home = Path(folder)
        with KafkaNodes(home) if chosen.command == "record" else MoldauNodes.make(home / "cluster") as nodes:
            for name in names:
                try:
                    answers = play(name, nodes)
                except Exception as problem:  # the others are played all the same
                    found += 1
                    print(f"{name} cannot be played: {type(problem).__name__}: {problem}")
                    continue
                if chosen.command == "record":
                    recording.store(RECORDED, name, f"three of {KAFKA}", answers)
                    continue
                for line in differences(name, answers):
                    found += 1
                    print(f"{name} {line}")
    print(f"{len(names)} scenarios, {found} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
