"""`moldau registry`: run a schema registry, and use one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.options import Output
from moldau.cli.output import Format

app = typer.Typer(help="Run a schema registry, and look after the schemas in one.", no_args_is_help=True)

Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="MOLDAU_REGISTRY", metavar="URL", help="The registry; user:password@ before the host."
    ),
]
Subject = Annotated[str, typer.Argument(help="The subject, such as orders-value; :.context:name in a context.")]
File = Annotated[
    Path, typer.Argument(help="The schema: .avsc, .json or .proto say its kind.", exists=True, dir_okay=False)
]
Kind = Annotated[
    str | None, typer.Option("--type", metavar="AVRO|JSON|PROTOBUF", help="Its kind, whatever its name says.")
]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", metavar="NAME=SUBJECT:VERSION", help="A schema that it refers to; repeat for more."),
]
Properties = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="MOLDAU_REGISTRY_CONFIG",
        metavar="FILE",
        help="Properties of the registry's clients: schema.registry.ssl.truststore.location, bearer.auth.token …",
    ),
]
LOCAL = "http://localhost:8081"


@app.command()
def start(
    config: Annotated[
        Path | None, typer.Option("--config", help="A properties file with the keys of Confluent's registry.")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap-server", help="The brokers, instead of kafkastore.bootstrap.servers.")
    ] = None,
    listen: Annotated[str | None, typer.Option("--listen", help="Instead of listeners; http://localhost:8081.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; wins over the file.")
    ] = None,
) -> None:
    """Run one instance in the foreground until SIGTERM. Several with the same group elect one that writes."""
    from moldau.cli.services import registry_start

    registry_start.start(config, bootstrap, listen, settings or [])


@app.command("list")
def list_subjects(
    url: Url = LOCAL,
    properties: Properties = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Only subjects that begin so; :*: is every context.")] = "",
    deleted: Annotated[bool, typer.Option("--deleted", help="Soft-deleted ones too.")] = False,
    output: Output = Format.table,
) -> None:
    """List the subjects with their versions, kind and latest id."""
    from moldau.cli.services import registry_actions

    registry_actions.list_subjects(registry_actions.at(url, properties), prefix, deleted, output)


@app.command()
def show(
    subject: Subject,
    version: Annotated[str, typer.Option("--version", help="A number, or latest.")] = "latest",
    url: Url = LOCAL,
    properties: Properties = None,
    output: Output = Format.table,
) -> None:
    """Print the schema of a subject, readably; -o json prints everything that is known of it."""
    from moldau.cli.services import registry_actions

    registry_actions.show(registry_actions.at(url, properties), subject, version, output)


@app.command()
def register(
    subject: Subject,
    file: File,
    kind: Kind = None,
    reference: References = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Equal meanings share an id.")] = False,
    url: Url = LOCAL,
    properties: Properties = None,
) -> None:
    """Register a schema and print its id; one that is there keeps its id."""
    from moldau.cli.services import registry_actions

    registry_actions.register(registry_actions.at(url, properties), subject, file, kind, reference or [], normalize)


@app.command()
def check(
    subject: Subject,
    file: File,
    kind: Kind = None,
    reference: References = None,
    version: Annotated[
        str | None, typer.Option("--version", help="Against this version alone; else as registering would.")
    ] = None,
    url: Url = LOCAL,
    properties: Properties = None,
) -> None:
    """Say whether a schema could be registered, and if not, where it differs; exit code 1 if not."""
    from moldau.cli.services import registry_actions

    registry_actions.check(registry_actions.at(url, properties), subject, file, kind, reference or [], version)


@app.command()
def level(
    subject: Annotated[str | None, typer.Argument(help="A subject; all without one.")] = None,
    new: Annotated[str | None, typer.Option("--set", metavar="LEVEL", help="BACKWARD, FULL_TRANSITIVE, NONE …")] = None,
    url: Url = LOCAL,
    properties: Properties = None,
) -> None:
    """Print the compatibility level, or set it."""
    from moldau.cli.services import registry_actions

    registry_actions.level(registry_actions.at(url, properties), subject, new)


@app.command()
def delete(
    subject: Subject,
    version: Annotated[str | None, typer.Option("--version", help="One version alone.")] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="What is soft-deleted already is gone for good.")
    ] = False,
    url: Url = LOCAL,
    properties: Properties = None,
) -> None:
    """Delete a subject or one of its versions, softly: ids go on to be readable."""
    from moldau.cli.services import registry_actions

    registry_actions.delete(registry_actions.at(url, properties), subject, version, permanent)


@app.command("export")
def export_schemas(
    url: Url = LOCAL,
    properties: Properties = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Only subjects that begin so.")] = ":*:",
) -> None:
    """Print everything, one JSON object a line: settings, then versions in the order of their ids."""
    from moldau.cli.services import registry_actions

    registry_actions.export(registry_actions.at(url, properties), prefix)


@app.command("import")
def import_schemas(
    file: Annotated[Path, typer.Argument(help="What export printed.", exists=True, dir_okay=False)],
    url: Url = LOCAL,
    properties: Properties = None,
) -> None:
    """Load what export printed, with the same ids and versions. The registry must be empty, or hold the same."""
    from moldau.cli.services import registry_actions

    registry_actions.load(registry_actions.at(url, properties), file)


@app.command("hash-password")
def hash_password(
    password: Annotated[str, typer.Option("--password", prompt=True, hide_input=True, help="Asked for if not given.")],
) -> None:
    """Print the hash of a password, for a line of the password file: name: hash,role."""
    import os

    from moldau.web.passwords import hash_password as hashed

    print(hashed(password, os.urandom(16)))
