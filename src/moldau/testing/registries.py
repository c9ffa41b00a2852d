"""A schema registry on a cluster of these tests, and one that runs already, with the same face."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.testing.processes import GoesOn, OwnProcess, end_with_parent

if TYPE_CHECKING:
    from moldau.cli.embedded import EmbeddedRegistry
    from moldau.clients.schema_registry import SchemaRegistry

FOR_TESTS: Final = {
    "kafkagroup.heartbeat.interval.ms": 300,
    "kafkagroup.session.timeout.ms": 6000,
    "schema.workers": 1,
}
"""One that was killed is followed soon, and a test compares few schemas."""


class Schemas:
    """What tests ask of a schema registry, whoever runs it. `url` is its address."""

    url: str

    @property
    def properties(self) -> dict[str, str]:
        """For serializers, beside the properties of the broker."""
        return {"schema.registry.url": self.url}

    def client(self) -> SchemaRegistry:
        """Ids, versions and `ask` for everything else."""
        from moldau.clients.schema_registry import SchemaRegistry

        return SchemaRegistry.of(self.properties)

    def register(self, subject: str, schema: str | Mapping[str, Any] | list[Any], kind: str = "AVRO") -> int:
        """Registers a schema, and returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.client().id_of(subject, text, kind)


class RunningRegistry(GoesOn, Schemas):
    """A schema registry that somebody else runs: ours, Confluent's, or a relative."""

    def __init__(self, url: str) -> None:
        self.url = url


class Registry(OwnProcess["EmbeddedRegistry"], Schemas):
    """A schema registry in a process of its own, on a free port, which keeps its schemas in a topic of `bootstrap`.
    `settings` are the registry's, with Confluent's names."""

    noun = "registry"

    def __init__(self, bootstrap: str, settings: Mapping[str, object] | None = None) -> None:
        super().__init__({**FOR_TESTS, "kafkastore.bootstrap.servers": bootstrap, **(settings or {})})

    @property
    def url(self) -> str:  # type: ignore[override]
        return f"http://{self._started().address}"

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._started().pid

    def _made(self) -> EmbeddedRegistry:
        from moldau.cli.embedded import EmbeddedRegistry

        return EmbeddedRegistry(self.folder, self._settings, before_start=end_with_parent)
