"""The topics that brokers keep for themselves, by Kafka's names; and what the names of our own services begin with."""

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
METADATA_TOPIC: Final = "__cluster_metadata"
"""Where Apache Kafka's controllers keep what they decide; here it is only a name that tools ask for."""

SHARE_STATE_TOPIC: Final = "__share_group_state"
OWN_PREFIX: Final = "__moldau"
"""Of topics, groups and folders that Kafka does not know, such as the markers of Spark's sinks."""

INTERNAL_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC))
