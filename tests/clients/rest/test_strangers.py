"""The REST proxy before programs that we did not write: schemathesis, Confluent's client for Node.js (v1), EventSource.

They are fetched from PyPI and npm when they are first used, and kept where other peers are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.rest.conftest import QUICK
from tests.peers import maven, node_programs
from tests.support.broker import Broker
from tests.support.rest import Proxy

pytestmark = [pytest.mark.xdist_group("rest"), pytest.mark.live, pytest.mark.timeout(1800)]

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def schemathesis() -> Path:
    folder = maven.cache() / "schemathesis"
    program = folder / "bin" / "schemathesis"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "schemathesis>=4.32,<5"], check=True)
    return program


@pytest.fixture(scope="module")
def spare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """With a broker of its own: settings may be changed, topics deleted."""
    folder = tmp_path_factory.mktemp("spare")
    with Broker(folder / "broker") as broker, Proxy(folder, broker.address, QUICK, ("services", "start")) as found:
        yield found


@pytest.mark.parametrize("service", [0, 1])
def test_schemathesis_finds_nothing(spare: Proxy, schemathesis: Path, tmp_path: Path, service: int) -> None:
    url = f"{spare.urls[service]}/openapi.json"
    options = ["--max-examples", "10", "--request-timeout", "30", "--checks", CHECKS, "--exclude-path-regex", "tail"]
    run(schemathesis, "run", url, "--phases", "examples,coverage,fuzzing", *options, folder=tmp_path)


@pytest.mark.parametrize("format_", ["binary", "avro"])
def test_confluent_s_client_of_v1(proxy: Proxy, topic: str, format_: str) -> None:
    (line,) = node_programs.run("rest_v1", proxy.url, format_, topic, 500)
    told = json.loads(line)
    assert told == {"failed": 0, "read": 500, "problem": None}


def test_event_source_sees_each_record_once_although_it_is_cut_off(proxy: Proxy, topic: str, tmp_path: Path) -> None:
    settings = {"streaming.connection.max.duration.ms": "1000"}
    with Proxy(tmp_path, proxy.broker, settings) as short:
        cluster = f"{short.url}{short.cluster}"
        (line,) = node_programs.run("rest_follow", cluster, topic, 60)
    told = json.loads(line)
    assert (told["seen"], told["distinct"]) == (1500, 1500) and told["opened"] > 2, told
