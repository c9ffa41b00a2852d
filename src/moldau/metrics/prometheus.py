"""The registry as Prometheus reads it (text format 0.0.4), under the names that the reference exporter gives to MBeans.

`kafka.<domain>:type=<T>,name=<N>,k=v` becomes `kafka_<domain>_<t>_<n>{k="v"}`; `…PerSec` counts become `…_total`, and
times become a summary: quantiles, `_sum` and `_count`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from itertools import islice

from moldau.metrics.registry import Histogram, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)
PER_SECOND = "PerSec"
SAMPLES_BETWEEN_YIELDS = 64

_UNFIT = re.compile(r"[^a-z0-9_]")


def exposition(metrics: Metrics) -> str:
    """All of it at once, for those who have nothing else to do."""
    work = exposition_in_turns(metrics)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return str(stop.value)


def exposition_in_turns(metrics: Metrics) -> Generator[None, None, str]:
    """Partitions give thousands of lines: it yields now and then."""
    families: dict[str, tuple[str, list[str]]] = {}
    found = metrics.snapshot()
    while some := tuple(islice(found, SAMPLES_BETWEEN_YIELDS)):
        for name, value in some:
            family = family_name(name.group, name.type, name.name)
            kind = "summary" if isinstance(value, Histogram) else "counter" if family.endswith("_total") else "gauge"
            _, lines = families.setdefault(family, (kind, []))
            lines.extend(samples(family, dict(name.tags), value))
        yield
    parts = []
    for family, (kind, lines) in sorted(families.items()):
        parts.append(f"# TYPE {family} {kind}\n")
        parts.append("".join(lines))
        yield
    return "".join(parts)


@lru_cache(maxsize=4096)
def family_name(group: str, kind: str, short: str) -> str:
    """Without a type it is `<group>_<name>`."""
    suffix = ""
    if short.endswith(PER_SECOND):
        short, suffix = short.removesuffix(PER_SECOND), "_total"
    elif short.endswith("Percent"):
        short, suffix = short.removesuffix("Percent"), "_percent"
    return _UNFIT.sub("_", "_".join(filter(None, (group, kind, f"{short}{suffix}"))).lower())


def samples(family: str, labels: Mapping[str, str], value: float | Histogram) -> Iterator[str]:
    if not isinstance(value, Histogram):
        yield f"{family}{braced(labels)} {number(value)}\n"
        return
    for share in QUANTILES:
        yield f"{family}{braced({**labels, 'quantile': f'{share:g}'})} {number(value.quantile(share))}\n"
    yield f"{family}_sum{braced(labels)} {number(value.total)}\n"
    yield f"{family}_count{braced(labels)} {value.count}\n"


def braced(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{_UNFIT.sub("_", key.lower())}="{escaped(text)}"' for key, text in labels.items()) + "}"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
