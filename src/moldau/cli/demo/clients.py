"""Settings of the demo's Kafka clients: they keep quiet, since what goes wrong is told by the demo itself."""

from typing import Any


def quiet(bootstrap: str, **more: object) -> dict[str, Any]:
    """A librdkafka client of this cluster."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None, **more}
