"""Whom the brokers of a cluster have shut out, as their logs and figures tell: nobody who lives, but for those whose
session may have ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.test_seen_from_outside import samples

#: Of brokers that were reported dead because of a refused connection.
DEATHS = "moldau_server_peerlinks_deaths_total"
FENCED = re.compile(r"fenced broker\(s\) ([\d, ]+):")


@contextmanager
def none_fenced_but(cluster: LocalCluster, *silent: int) -> Iterator[None]:
    """While no process dies; the sessions of these may end."""
    before, told = fenced(cluster), deaths(cluster)
    yield
    meanwhile = fenced(cluster) - before
    assert meanwhile.keys() <= {*silent}, f"fenced, and how often: {dict(meanwhile)}"
    assert deaths(cluster) == told, "a broker that lives was reported dead"


def fenced(cluster: LocalCluster) -> Counter[int]:
    texts = [cluster.log_file(broker).read_text(errors="replace") for broker in cluster.brokers]
    return Counter(int(number) for text in texts for told in FENCED.findall(text) for number in told.split(", "))


def deaths(cluster: LocalCluster) -> float:
    return sum(samples(cluster, broker)[DEATHS] for broker in cluster.brokers)
