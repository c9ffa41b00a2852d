"""`moldau zookeeper`: ZooKeeper servers for a cluster, from the jars that pip's PySpark contains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.options import Output
from moldau.cli.output import UNREACHABLE, WRONG_USAGE, Column, CommandError, Format, Table, show

app = typer.Typer(help="Run the ZooKeeper servers of a cluster, and look whether they serve.", no_args_is_help=True)

NOT_SERVING = "not serving"


@app.command()
def start(
    config: Annotated[
        Path | None, typer.Option("--config", help="A properties file as zookeeper-server-start takes it.")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="The folder for its data, instead of dataDir.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Where clients connect, instead of clientPort.")] = None,
    number: Annotated[
        int | None, typer.Option("--id", min=1, max=255, help="The number of this server within its ensemble.")
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="N=HOST:2888:3888", help="One server of the ensemble; give all of them."),
    ] = None,
) -> None:
    """Run one server in the foreground: alone, or as a member of an ensemble (--id and one --server for each).

    Settings that are not given are those of a development cluster: port 2181, tickTime 500 and the like.
    """
    from moldau.cli.zookeeper import server as zookeeper_server
    from moldau.cli.zookeeper.process import ZooKeeperError

    try:
        settings = zookeeper_server.read_file(str(config)) if config is not None else {"clientPort": "2181"}
        if data is not None:
            settings["dataDir"] = str(data)
        if port is not None:
            settings["clientPort"] = str(port)
        for each in server or ():
            name, equals, address = each.partition("=")
            if not equals or not name.isdigit() or address.count(":") < 2:
                raise CommandError(f"--server {each}: expected N=HOST:PEERPORT:ELECTIONPORT", exit_code=WRONG_USAGE)
            settings[f"server.{name}"] = address
        if server and number is None:
            raise CommandError("--server needs --id: the number of this server among them", exit_code=WRONG_USAGE)
        zookeeper_server.run(zookeeper_server.prepared(settings, number))
    except ZooKeeperError as error:
        raise CommandError(str(error)) from None


@app.command()
def status(
    servers: Annotated[str, typer.Argument(metavar="HOST:PORT[,HOST:PORT]", help="The servers to ask.")],
    output: Output = Format.table,
) -> int:
    """Ask each server what it is: leader, follower, standalone or not serving. Exit code 3 if none serves."""
    from moldau.cli.zookeeper.process import mode_of
    from moldau.config.definition import ConfigError
    from moldau.config.zookeeper import split_connect

    try:
        hosts = split_connect(servers)[0].split(",")
    except ConfigError as error:
        raise CommandError(f"{servers}: {error.allowed}", exit_code=WRONG_USAGE) from None
    found = []
    for address in hosts:
        host, _, port = address.rpartition(":")
        found.append({"server": address, "mode": mode_of(host.strip("[]"), int(port)) or NOT_SERVING})
    rows = [tuple(each.values()) for each in found]
    show(output, found, lambda: [Table((Column("server"), Column("mode")), rows=list(rows))])
    return 0 if any(each["mode"] != NOT_SERVING for each in found) else UNREACHABLE
