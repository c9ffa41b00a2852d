"""The paths of the proxy: one `Api` for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from moldau.rest import (
    reading,
    tail,
    v2_consumers,
    v2_topics,
    v3_acls,
    v3_clusters,
    v3_configs,
    v3_groups,
    v3_partitions,
    v3_records,
    v3_topics,
)
from moldau.rest.proxy import Proxy
from moldau.rest.v2 import V1, V2
from moldau.version import VERSION
from moldau.web import Api

MEDIA_TYPES = ("application/json", V2, V1)


def make_api(proxy: Proxy) -> Api:
    settings = proxy.settings
    allowed, blocked = settings.list("api.endpoints.allowlist"), settings.list("api.endpoints.blocklist")

    def admits(name: str) -> bool:
        return (not allowed or named_by(name, allowed)) and not named_by(name, blocked)

    api = Api("Moldau REST proxy", VERSION, MEDIA_TYPES, admits=admits)
    if settings.flag("api.v2.enable"):
        v2_topics.add(api, proxy)
        v2_consumers.add(api, proxy)
    if settings.flag("api.v3.enable"):
        for part in (v3_clusters, v3_configs, v3_topics, v3_partitions, v3_groups, v3_acls, v3_records, reading, tail):
            part.add(api, proxy)
    return api


def named_by(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
