"""Where Moldau answers otherwise than Apache Kafka 4.3 on purpose, each with its reason. Keep it short."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.conformance.messages import announced_apis
from tests.conformance.recording import Difference
from tests.conformance.scenarios.connections import APIS_SERVED


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """`*` in a pattern stands for anything."""

    scenario: str
    step: str
    path: str
    reason: str
    expected: str = "*"

    def covers(self, scenario: str, difference: Difference) -> bool:
        pairs = (
            (self.scenario, scenario),
            (self.step, difference.step),
            (self.path, difference.path),
            (self.expected, json.dumps(difference.expected)),
        )
        return all(_matches(pattern, text) for pattern, text in pairs)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


# What Apache Kafka serves on its broker listener and Moldau does not yet, by API key.
_COMPARABLE: Final = APIS_SERVED
_NOT_SERVED: Final = tuple(api.key for api in announced_apis().values() if api.name not in _COMPARABLE)
_FEATURES: Final = ("eligible.leader.replicas.version", "kraft.version", "share.version", "streams.version")
_UNREADABLE: Final = (
    "Apache Kafka does not check the lengths of compressed records and stores what no reader can decode; we refuse it"
)
_WHOLE_BATCHES: Final = (
    "Apache Kafka cuts the last batch at the limit and readers drop the piece; we send whole batches"
)
_NEVER_ANSWERED: Final = "Apache Kafka fails inside and never answers; we refuse the request"
_BEHIND_THE_RECORDS: Final = (
    "Apache Kafka also names aborted transactions that begin behind the records it sends; we name those of the records"
)
_INTERNAL_ERROR: Final = "Apache Kafka fails inside; we answer what the request deserves"

KNOWN_DIFFERENCES: Final[tuple[KnownDifference, ...]] = (
    *(
        KnownDifference("*api-versions", "*", f"api_keys[{key}]", "an API is announced when it is served")
        for key in _NOT_SERVED
    ),
    *(
        KnownDifference("*api-versions", "*", f"*_features[{name}]", "a feature is announced when it is served")
        for name in _FEATURES
    ),
    KnownDifference(
        "describe-configs-of-brokers",
        "everything",
        "*configs[advertised.listeners]*",
        "the real broker is deployed with it, ours derives it from the listeners",
    ),
    KnownDifference(
        "describe-configs-of-brokers",
        "everything",
        "*configs[controller.quorum.voters]*",
        "the real broker needs a quorum of controllers, ours has its own metadata store",
    ),
    KnownDifference(
        "metadata-that-creates",
        "first answer",
        "topics[*",
        "Apache Kafka answers that the topic is unknown and creates it meanwhile; we answer when it is there",
    ),
    KnownDifference("metadata-that-creates", "longest legal name", "topics[*", "as for the first answer"),
    *(
        KnownDifference(scenario, step, "*.aborted_transactions[*]", _BEHIND_THE_RECORDS)
        for scenario, step in (
            ("init-while-a-transaction-is-open", "log"),
            ("writes-into-two-transactions", "second aborted: committed"),
        )
    ),
    KnownDifference("add-partitions-to-txn", "no transactions", "", _NEVER_ANSWERED),
    KnownDifference("produce-null-records", "null records", "", _NEVER_ANSWERED),
    KnownDifference("alter-configs-of-a-topic-twice", "a topic twice", "", _NEVER_ANSWERED),
    *(
        KnownDifference("batches-with-broken-records", f"{codec}: length *", "*", _UNREADABLE)
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ),
    KnownDifference("batches-with-broken-records", "none: length varint endless", "*.error_code", _INTERNAL_ERROR),
    KnownDifference("batches-with-broken-records", "payload of gzip: cut", "*.error_code", _INTERNAL_ERROR),
    KnownDifference(
        "batches-that-lie-about-records",
        "none: offset*: stored",
        "*",
        "Apache Kafka keeps offsets that repeat, skip or are negative in a plain batch; we number the records",
    ),
    KnownDifference("fetch-limits", "*", "*.records[*]", _WHOLE_BATCHES, expected='{"incomplete batch"*'),
    KnownDifference("fetch-limits", "two topics within 400", "*~b*.records[*]", "the piece counts towards the limit"),
    KnownDifference("describe-topic-partitions", "known and empty name", "*", _INTERNAL_ERROR),
)


def unexplained(scenario: str, differences: Sequence[Difference]) -> list[Difference]:
    return [d for d in differences if not any(known.covers(scenario, d) for known in KNOWN_DIFFERENCES)]
