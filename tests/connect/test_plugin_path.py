"""Connectors of one's own in a folder that the worker is told of."""

from __future__ import annotations

from pathlib import Path

from tests.connect.test_files import write
from tests.support.broker import Broker
from tests.support.connect import WorkerProcess, values, worker_properties

COUNTER = """
from moldau.connect import ConfigDef, Key, SourceConnector, SourceRecord, Stream
from helpers_of_mine.texts import shown

class Counter(SourceConnector):
    CONFIG = ConfigDef(Key("topic", default="numbers"))
    VERSION = "7"

    def streams(self):
        return [Stream({"counter": "one"}, self.config["topic"])]

    def latest(self, stream, position):
        return position or {"n": 3}

    def read(self, stream, begin, end):
        for number in range(end["n"]):
            yield SourceRecord(shown(number))
"""


def test_a_connector_is_found_below_plugin_path_by_the_worker_and_by_sparks_processes(
    broker: Broker, tmp_path: Path, topic: str
) -> None:
    plugins, other = tmp_path / "plugins", tmp_path / "other"
    (other / "helpers_of_mine").mkdir(parents=True)
    (other / "helpers_of_mine" / "__init__.py").touch()
    (other / "helpers_of_mine" / "texts.py").write_text("def shown(number):\n    return f'number {number}'\n")
    plugins.mkdir()
    (plugins / "counters_of_mine.py").write_text(COUNTER)
    settings = worker_properties(tmp_path, broker.address, spark_master="local[2]", plugin_path=f"{plugins},{other}")
    write(tmp_path / "worker.properties", settings)
    config = {"name": topic, "connector.class": "counters_of_mine.Counter", "topic": topic}
    write(tmp_path / "counter.properties", config)
    worker = WorkerProcess(tmp_path, ["connect", "standalone", "worker.properties", "counter.properties"])
    worker.start()
    try:
        worker.wait_until_ready()
        assert values(broker.address, topic, 3) == [b"number 0", b"number 1", b"number 2"]
        wrong = {"name": "wrong", "config": {**config, "name": "wrong", "connector.class": "counters_of_mine.Counted"}}
        status, refused = worker.ask("POST", "/connectors", wrong)
        assert (status, "has no attribute 'Counted'" in refused["message"]) == (400, True)
        assert worker.stop() == 0
    finally:
        worker.kill()
