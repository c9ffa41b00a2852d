"""From the options that name a cluster to a connection: `--bootstrap-server`, `--command-config`, their old names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka.options import Option, Options, ToolError, flag, value

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

SERVERS: Final = "bootstrap.servers"
BOOTSTRAP: Final = value("bootstrap-server", "server to connect to", "The brokers to begin with: host:port,host:port.")
COMMAND_CONFIG: Final = value("command-config", "config file", "A properties file with settings of the client.")
ZOOKEEPER: Final = value("zookeeper", "hosts", hidden=True)
BROKER_LIST: Final = value("broker-list", "servers", hidden=True)
NEW_CONSUMER: Final = flag("new-consumer", hidden=True)
SERVER_OPTIONS: Final = ("bootstrap-server", "broker-list", "zookeeper")


_opened: list[Connection] = []


def names_cluster(options: Options) -> bool:
    return any(name in options.parser.options and options.has(name) for name in SERVER_OPTIONS)


def servers_of(options: Options) -> str:
    """The brokers that the options name; the option for them must have been given."""
    for name in ("bootstrap-server", "broker-list"):
        if name in options.parser.options and options.has(name):
            return options.given(name)
    if "zookeeper" in options.parser.options and options.has("zookeeper"):
        from moldau.cli.kafka.zookeeper import brokers_behind

        return brokers_behind(options.given("zookeeper"))
    raise options.parser.missing("bootstrap-server")


def file_properties(options: Options, *names: str) -> dict[str, str]:
    """What the properties files say that these options name."""
    from moldau.cli.connection import read_properties

    found: dict[str, str] = {}
    for name in names:
        if name in options.parser.options and options.has(name):
            found |= read_properties(Path(options.given(name)))
    return found


def pairs(texts: list[str], what: str = "property") -> dict[str, str]:
    """KEY=VALUE texts; the value may be empty or hold further equals signs."""
    found = {}
    for text in texts:
        key, _, content = text.partition("=")
        if not key:
            raise ToolError(f"Invalid {what} '{text}': expected key=value")
        found[key] = content
    return found


def connect(options: Options, *config_options: str) -> Connection:
    """The cluster that the options name, with the settings of their files."""
    files = config_options or ("command-config",)
    return connect_with(file_properties(options, *files) | {SERVERS: servers_of(options)})


def connect_with(properties: dict[str, str]) -> Connection:
    from moldau.cli.connection import Connection

    made = Connection(properties, lenient=True)
    _opened.append(made)
    return made


def close_all() -> None:
    """Ends every connection of this process; the entry calls it when a tool has ended."""
    while _opened:
        _opened.pop().close()


CLUSTER_OPTIONS: Final[tuple[Option, ...]] = (BOOTSTRAP, COMMAND_CONFIG, ZOOKEEPER)
