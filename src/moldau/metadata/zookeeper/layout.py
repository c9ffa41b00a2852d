"""Where everything stands in ZooKeeper, and which place of the log has which revision."""

from __future__ import annotations

import json
from dataclasses import dataclass

from moldau.metadata.store import CorruptStoreError, LaterReleaseError, Revision

FORM = 1
GENERATION_ENTRIES = 2_000_000_000
"""ZooKeeper's counter of sequential nodes has 31 bits: the log goes on in another folder before it is used up."""

_PREFIX = "c"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below a chroot ("" for none). Revision 1 is the first entry of generation 0.

    Every place of a generation from `generation_entries` on means nothing: the log goes on in the next one.
    """

    chroot: str
    generation_entries: int = GENERATION_ENTRIES

    @property
    def root(self) -> str:
        return f"{self.chroot}/moldau"

    @property
    def log(self) -> str:
        return f"{self.root}/log"

    @property
    def head(self) -> str:
        return f"{self.root}/head"

    @property
    def snapshots(self) -> str:
        return f"{self.root}/snapshots"

    @property
    def broker_ids(self) -> str:
        return f"{self.chroot}/brokers/ids"

    def broker_id(self, broker_id: int) -> str:
        return f"{self.broker_ids}/{broker_id}"

    def generation_of(self, revision: Revision) -> int:
        return (revision - 1) // self.generation_entries

    def generation(self, generation: int) -> str:
        return f"{self.log}/{generation}"

    def new_entry(self, generation: int) -> str:
        """What a sequential create is asked for."""
        return f"{self.log}/{generation}/{_PREFIX}"

    def entry(self, revision: Revision) -> str:
        generation, sequence = divmod(revision - 1, self.generation_entries)
        return f"{self.log}/{generation}/{_PREFIX}{sequence:010d}"

    def revision_of(self, generation: int, name: str) -> Revision | None:
        """The revision of a node of the log, by its name or path; None where its place means nothing."""
        sequence = int(name.rpartition("/")[2].removeprefix(_PREFIX))
        if not 0 <= sequence < self.generation_entries:
            return None
        return generation * self.generation_entries + sequence + 1

    def snapshot(self, name: str) -> str:
        return f"{self.snapshots}/{name}"

    def part(self, name: str, number: int) -> str:
        return f"{self.snapshots}/{name}/{number}"

    def description(self) -> bytes:
        return json.dumps({"form": FORM, "generation_entries": self.generation_entries}).encode()

    def as_described(self, description: bytes) -> Layout:
        """With what the first broker of the cluster laid down. Raises CorruptStoreError or LaterReleaseError."""
        try:
            found = json.loads(description)
            form, entries = int(found["form"]), int(found["generation_entries"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStoreError(self.root, 0, f"it does not describe a store of metadata: {error!r}") from error
        if form != FORM:
            raise LaterReleaseError(self.root, form, FORM)
        return Layout(self.chroot, entries)


def parents_of(path: str) -> list[str]:
    """All paths above `path`, and itself, the uppermost first."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
