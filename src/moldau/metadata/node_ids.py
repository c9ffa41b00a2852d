"""Numbers for brokers that were given none (`broker.id.generation.enable`): one after the other, above those that
people give. A number is committed before it is used, so none is given twice, whoever asks at the same time.
"""

from __future__ import annotations

from moldau.metadata import paths
from moldau.metadata.codec import NOTHING_ELSE, decode_members, encode_members, unknown_members
from moldau.metadata.store import ABSENT, MetadataStore, Put, VersionConflictError

_MEMBERS = frozenset({"v", "last"})


async def next_node_id(store: MetadataStore, reserved: int) -> int:
    """The first that is above `reserved`, was never handed out, and is no known broker's."""
    while True:
        await store.sync()
        last, version, unknown = reserved, ABSENT, NOTHING_ELSE
        entry = await store.read(paths.NODE_IDS)
        if entry is not None:
            found = decode_members(paths.NODE_IDS, entry.value, "last")
            last, version, unknown = max(reserved, int(found["last"])), entry.version, unknown_members(found, _MEMBERS)
        known = (await store.list(paths.BROKERS)).entries
        number = last + 1
        while paths.broker(number) in known:
            number += 1
        try:
            await store.commit([Put(paths.NODE_IDS, encode_members({"last": number}, unknown), version)])
        except VersionConflictError:
            continue
        return number
