"""Brokers of two releases in one cluster: the older one works with the newer ones as long as nobody has finalized what
it does not know, keeps others from doing that, and does not come back once it is done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster, LocalClusterError, Process
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.load import Load
from tests.cluster.looking import create, wait_until_whole
from tests.cluster.older_broker import older
from tests.cluster.test_rolling import controller_of
from tests.support.names import own_name

FEATURE = "transaction.version"


@pytest.mark.timeout(300)
def test_an_older_broker_is_protected_and_in_the_end_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def tool(action: str, level: int) -> tuple[int, str]:
        asked = ["--bootstrap-server", cluster.bootstrap, action, "--feature", f"{FEATURE}={level}"]
        printed = our_tool("kafka-features", asked, "", tmp_path)
        return printed.code, printed.out + printed.err

    broker = next(each for each in cluster.brokers if each.number != controller_of(cluster))
    topic = own_name("upgraded")
    create(cluster, topic)
    assert tool("downgrade", 1)[0] == 0
    try:
        with Load(cluster, topic) as load:
            with monkeypatch.context() as patched:
                patched.setattr(cluster, "_wrap", older)
                restart(cluster, broker)
            load.goes_on()
            code, told = tool("upgrade", 2)
            assert code != 0 and f"Broker {broker.number} only supports versions 0-1" in told, told

            restart(cluster, broker)
            code, told = tool("upgrade", 2)
            assert code == 0, told
            cluster.stop_member(broker)
            with monkeypatch.context() as patched:
                patched.setattr(cluster, "_wrap", older)
                with pytest.raises(LocalClusterError, match=f"finalized version 2 of {FEATURE}.*Start it with"):
                    cluster.start_member(broker)
            load.goes_on()
        load.assert_nothing_lost_or_doubled()
    finally:
        cluster.start()
        wait_until_whole(cluster)
        tool("upgrade", 2)


def restart(cluster: LocalCluster, broker: Process) -> None:
    cluster.stop_member(broker)
    cluster.start_member(broker)
    wait_until_whole(cluster)
