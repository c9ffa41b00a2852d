"""Every path of the proxy with anything in it: no answer but those that are described, and none that is our fault.

The long form is schemathesis, in `test_strangers.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker import Broker
from tests.support.garbage import check_answers, operations
from tests.support.rest import Proxy

pytestmark = pytest.mark.xdist_group("rest")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One of its own: settings of the broker may be changed."""
    folder = tmp_path_factory.mktemp("garbage")
    quick = {"consumer.request.timeout.ms": "100"}
    with Broker(folder / "broker") as broker, Proxy(folder, broker.address, quick) as found:
        yield found


def test_whatever_is_asked_is_answered_as_described(proxy: Proxy) -> None:
    described = proxy.ask("GET", "/openapi.json").body
    assert len(operations(described)) > 70
    check_answers(proxy.url, described, 400, {"cluster_id": proxy.cluster.rpartition("/")[2]})
