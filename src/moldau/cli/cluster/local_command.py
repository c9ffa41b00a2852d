"""`moldau cluster up`, `status`, `kill`, `restart`, `down`: a cluster of processes on this host."""

from __future__ import annotations

import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.cluster.local_cluster import HOST, STATE_FILE, LocalCluster, LocalClusterError, Process
from moldau.cli.options import Output
from moldau.cli.output import WRONG_USAGE, Column, CommandError, Format, Table, note, show
from moldau.types.errors import KafkaError

DEFAULT_HOME = Path("moldau-cluster")
DEFAULT_PORT = 9092
DEFAULT_BROKERS = 3
LOOK_SECONDS = 1.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"

Home = Annotated[Path, typer.Option(help="The folder with the cluster's data, logs and state.")]
Member = Annotated[int, typer.Argument(help="A broker's id; with --zookeeper the number of a server.")]
OfZookeeper = Annotated[bool, typer.Option("--zookeeper", help="A ZooKeeper server instead of a broker.")]


def up(
    brokers: Annotated[
        int | None, typer.Option(min=1, max=99, help="How many brokers: 3, or as many as there are. More are added.")
    ] = None,
    zookeepers: Annotated[int, typer.Option(min=1, max=9, help="How many ZooKeeper servers: 1, 3 or 5.")] = 1,
    home: Home = DEFAULT_HOME,
    port: Annotated[int, typer.Option(help="The first broker's port; the others follow in a row.")] = DEFAULT_PORT,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting for all brokers; {id} in it is each one's id."),
    ] = None,
) -> None:
    """Start a cluster on this host, ZooKeeper and brokers, each in its folder; or again what was stopped, or more."""
    settings = dict(parsed(each) for each in setting or ())
    with told():
        if (home / STATE_FILE).exists():
            cluster = LocalCluster.open(home, note)
            if brokers is not None:
                cluster.grow(brokers)
            if settings:
                cluster.set(settings)
                note("settings hold for brokers that are started from now on: moldau cluster restart ID")
        else:
            cluster = LocalCluster.make(
                home, brokers=brokers or DEFAULT_BROKERS, zookeepers=zookeepers, port=port, settings=settings, say=note
            )
        cluster.start()
    print(cluster.bootstrap)
    note(f"data and logs are in {home}; next: moldau cluster status, kill 2, restart 2, down")


def status(
    home: Home = DEFAULT_HOME,
    watch: Annotated[bool, typer.Option(help="Look again every second until Ctrl-C.")] = False,
    output: Output = Format.table,
) -> None:
    """Show the processes of a cluster on this host, which broker controls it, and how many partitions each leads."""
    with told():
        while True:
            rows = documents(opened(home))
            if watch and sys.stdout.isatty():
                print(CLEAR_SCREEN, end="")
            show(output, rows, lambda: [status_table(rows)])  # noqa: B023 - called at once
            if not watch:
                return
            sys.stdout.flush()
            threading.Event().wait(LOOK_SECONDS)


def kill(number: Member, zookeeper: OfZookeeper = False, home: Home = DEFAULT_HOME) -> None:
    """End a member at once (SIGKILL), as a crash would."""
    with told():
        cluster = opened(home)
        member = chosen(cluster, number, zookeeper)
        cluster.kill_member(member)
    note(f"{member.name} was killed")


def restart(number: Member, zookeeper: OfZookeeper = False, home: Home = DEFAULT_HOME) -> None:
    """Stop a member in order, if it runs, and start it again."""
    with told():
        cluster = opened(home)
        member = chosen(cluster, number, zookeeper)
        if member.runs:
            cluster.stop_member(member)
        cluster.start_member(member)


def down(
    home: Home = DEFAULT_HOME,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the cluster's folder, with all data.")] = False,
) -> None:
    """Stop all members, brokers first; their data stays."""
    with told():
        opened(home).stop()
    if delete:
        shutil.rmtree(home)
        note(f"{home} is removed")


@contextmanager
def told() -> Iterator[None]:
    """What the cluster refuses is one line and an exit code."""
    try:
        yield
    except LocalClusterError as error:
        raise CommandError(str(error)) from None


def opened(home: Path) -> LocalCluster:
    return LocalCluster.open(home, note)


def chosen(cluster: LocalCluster, number: int, zookeeper: bool) -> Process:
    return cluster.zookeeper(number) if zookeeper else cluster.broker(number)


def parsed(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise CommandError(f"--set {setting}: a setting is KEY=VALUE", exit_code=WRONG_USAGE)
    return name.strip(), value.strip()


def documents(cluster: LocalCluster) -> list[dict[str, object]]:
    controller, led = told_by_brokers(cluster)
    return [
        {
            "member": member.name,
            "address": member.address,
            "state": "runs" if member.runs else "stopped",
            "pid": member.pid if member.runs else None,
            "controller": member.number == controller if member.kind == "broker" and led else None,
            "leads": led.get(member.number) if member.kind == "broker" else None,
            "log": str(cluster.log_file(member)),
        }
        for member in cluster.members
    ]


def told_by_brokers(cluster: LocalCluster) -> tuple[int | None, dict[int, int]]:
    """Who controls the cluster, and how many partitions each broker leads; nothing where no broker answers."""
    from moldau.client.cluster import Cluster
    from moldau.client.errors import ClientError
    from moldau.client.settings import Address, ClientSettings

    addresses = tuple(Address(HOST, broker.port) for broker in cluster.brokers if broker.runs)
    if not addresses:
        return None, {}
    found: Counter[int] = Counter({broker.number: 0 for broker in cluster.brokers})
    try:
        with Cluster(ClientSettings(addresses, connect_seconds=1.0, request_seconds=2.0)) as client:
            metadata = client.metadata(None)
            for topic in metadata.topics:
                found.update(partition.leader_id for partition in topic.partitions if partition.leader_id >= 0)
    except (ClientError, KafkaError):
        return None, {}
    return metadata.controller_id, dict(found)


def status_table(rows: Sequence[dict[str, object]]) -> Table:
    columns = [Column("MEMBER"), Column("ADDRESS"), Column("STATE"), Column("PID", right=True)]
    table = Table([*columns, Column("CONTROLLER"), Column("LEADS", right=True), Column("LOG", wide=True)])
    for row in rows:
        table.add(*("-" if cell is None else cell for cell in row.values()))
    return table
