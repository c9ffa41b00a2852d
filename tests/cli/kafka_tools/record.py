"""Records what Apache Kafka's own tools print: `python -m tests.cli.kafka_tools.record [scenario …]`.

Each scenario gets a fresh broker of Apache Kafka, or a cluster of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.cli.kafka_tools.player import SETTINGS, kafkas_tool, play, play_at
from tests.cli.kafka_tools.scenario import Place, all_scenarios
from tests.peers.apache_cluster import ApacheCluster
from tests.peers.apache_kafka import ApacheKafka

RECORDED = Path(__file__).parent.parent / "recorded"


def main(wanted: list[str]) -> None:
    for scenario in all_scenarios():
        if wanted and scenario.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            if scenario.brokers > 1:
                with ApacheCluster(directory / "cluster", brokers=scenario.brokers) as cluster:
                    place = Place(cluster.bootstrap, directory / "cluster", directory / "files")
                    results = play_at(scenario, place, kafkas_tool)
            else:
                with ApacheKafka(directory / "broker", {**SETTINGS, **scenario.settings}) as broker:
                    results = play(scenario, broker, directory / "files", kafkas_tool)
        path = RECORDED / f"{scenario.name}.json"
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(f"{path}: {len(results)} commands")


if __name__ == "__main__":
    main(sys.argv[1:])
