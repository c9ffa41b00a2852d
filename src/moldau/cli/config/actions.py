"""What `moldau config` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moldau.cli import documents, refusals
from moldau.cli.calls import configs
from moldau.cli.calls.configs import Change, Changes, ConfigKind, Source
from moldau.cli.config.command import Kind
from moldau.cli.connection import Connection, pairs
from moldau.cli.output import (
    NOT_FOUND,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    confirm,
    nearest,
    note,
    show,
)
from moldau.cli.passwords import shown

FILE_KEYS: Final = ("type", "name", "config", "entries")
CALLED: Final = {
    Kind.topic: ConfigKind.TOPIC,
    Kind.broker: ConfigKind.BROKER,
    Kind.group: ConfigKind.GROUP,
    Kind.brokers: ConfigKind.BROKER,
    Kind.logger: ConfigKind.BROKER_LOGGER,
    Kind.client_metrics: ConfigKind.CLIENT_METRICS,
}
SOURCES: Final = {
    Source.UNKNOWN: "unknown",
    Source.DYNAMIC_TOPIC_CONFIG: "topic",
    Source.DYNAMIC_BROKER_CONFIG: "broker",
    Source.DYNAMIC_DEFAULT_BROKER_CONFIG: "brokers",
    Source.STATIC_BROKER_CONFIG: "file",
    Source.DEFAULT_CONFIG: "default",
    Source.DYNAMIC_BROKER_LOGGER_CONFIG: "logger",
    Source.DYNAMIC_CLIENT_METRICS_CONFIG: "client-metrics",
    Source.DYNAMIC_GROUP_CONFIG: "group",
}
OWN_SOURCE: Final = {
    Kind.topic: "topic",
    Kind.broker: "broker",
    Kind.brokers: "brokers",
    Kind.group: "group",
    Kind.logger: "logger",
    Kind.client_metrics: "client-metrics",
}


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool

    def as_document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "source": self.source,
            "read_only": self.read_only,
            "sensitive": self.sensitive,
        }


# -- get ---------------------------------------------------------------------------------------------------------


def get(
    cluster: Connection, kind: Kind, names: Sequence[str], keys: Sequence[str], show_all: bool, output: Format
) -> None:
    wanted = list(dict.fromkeys(names)) or _all_names(cluster, kind)
    found = {name: entries_of(cluster, kind, name) for name in wanted}
    for name, entries in found.items():
        _require_keys(keys, [entry.name for entry in entries], f"{kind.value} {name}".rstrip())
    chosen = {
        name: [
            entry for entry in entries if (entry.name in keys if keys else show_all or entry.source == OWN_SOURCE[kind])
        ]
        for name, entries in found.items()
    }
    document = [
        {
            "type": kind.value,
            "name": name,
            "config": {
                entry.name: entry.value
                for entry in entries
                if entry.source == OWN_SOURCE[kind] and entry.value is not None
            },
            "entries": [entry.as_document() for entry in entries],
        }
        for name, entries in chosen.items()
    ]

    def tables() -> list[Table]:
        columns = [Column(kind.value), Column("setting"), Column("value"), Column("from")]
        table = Table([*columns, Column("read only", wide=True), Column("sensitive", wide=True)])
        for name, entries in chosen.items():
            for entry in entries:
                value = "(hidden)" if entry.sensitive else entry.value
                table.add(name, entry.name, value, entry.source, entry.read_only, entry.sensitive)
        return [table]

    show(output, document, tables, empty="nothing was set; --all shows what holds by default")


def _require_keys(keys: Sequence[str], known: Sequence[str], where: str) -> None:
    for key in keys:
        if key not in known:
            raise CommandError(f"{where} has no setting {key!r}", nearest(key, known), NOT_FOUND)


def _all_names(cluster: Connection, kind: Kind) -> list[str]:
    if kind is Kind.brokers:
        return [""]
    with refusals.while_doing("cannot read the cluster's metadata"):
        return configs.names(cluster, CALLED[kind])


def entries_of(cluster: Connection, kind: Kind, name: str) -> list[Entry]:
    """Every setting of one thing, by name."""
    _require(cluster, kind, name)
    with refusals.while_doing(f"settings of {kind.value} {name!r}"):
        found = configs.describe(cluster, CALLED[kind], name)
    return [Entry(each.name, each.value, SOURCES[each.source], each.read_only, each.sensitive) for each in found]


def _require(cluster: Connection, kind: Kind, name: str) -> None:
    """What the cluster would answer for with defaults, or not at all, must exist."""
    if kind is Kind.topic:
        refusals.described_topics(cluster, [name])
    if kind in (Kind.broker, Kind.logger):
        _broker_id(cluster, name)


def _broker_id(cluster: Connection, name: str) -> int:
    known = sorted(refusals.metadata(cluster).brokers)
    if not name.isdigit() or int(name) not in known:
        raise CommandError(f"there is no broker {name!r}", f"known are {', '.join(map(str, known))}", NOT_FOUND)
    return int(name)


# -- set, unset --------------------------------------------------------------------------------------------------


def set_some(
    cluster: Connection,
    kind: Kind | None,
    name: str | None,
    settings: Sequence[str],
    append: Sequence[str],
    subtract: Sequence[str],
    dry_run: bool,
) -> None:
    if kind is Kind.brokers and name is not None:
        settings, name = [name, *settings], ""
    if kind is None or name is None:
        raise CommandError("say what to change: KIND NAME KEY=VALUE", "or give --from-file", WRONG_USAGE)
    changes: list[tuple[Change, str, str | None]] = [
        *((Change.SET, key, value) for key, value in pairs(settings, "setting").items()),
        *((Change.APPEND, key, value) for key, value in pairs(append, "--append").items()),
        *((Change.SUBTRACT, key, value) for key, value in pairs(subtract, "--subtract").items()),
    ]
    if not changes:
        raise CommandError("nothing to set", "give KEY=VALUE, --append or --subtract", WRONG_USAGE)
    change(cluster, kind, name, changes, dry_run)


def set_from_file(cluster: Connection, path: Path, kind: Kind | None, name: str | None, dry_run: bool) -> None:
    """All of a file, or what of it is of this kind and name."""
    used = 0
    for number, item in enumerate(documents.read_objects(path, "config get", FILE_KEYS)):
        origin = f"{path}: item {number}"
        text = documents.field(item, "type", str, origin)
        if text not in [each.value for each in Kind]:
            raise CommandError(f"{origin}: {text!r} is no type", f"known are {', '.join(Kind)}", WRONG_USAGE)
        of_kind, of_name = Kind(text), documents.field(item, "name", str, origin)
        if (kind is not None and of_kind is not kind) or (name is not None and of_name != name):
            continue
        used += 1
        settings = documents.settings_of(item, origin)
        if settings:
            change(cluster, of_kind, of_name, [(Change.SET, key, value) for key, value in settings.items()], dry_run)
        else:
            note(f"nothing is set on {of_kind.value} {of_name}".rstrip())
    if not used:
        raise CommandError(f"{path} holds nothing for {kind} {name or ''}".rstrip(), exit_code=NOT_FOUND)


def unset(
    cluster: Connection, kind: Kind, name: str, keys: Sequence[str], every: bool, dry_run: bool, yes: bool
) -> None:
    if kind is Kind.brokers:
        keys, name = [name, *keys], ""
    if every and keys:
        raise CommandError("--all and single settings exclude each other", "give one of them", WRONG_USAGE)
    have = entries_of(cluster, kind, name)
    _require_keys(keys, [entry.name for entry in have], f"{kind.value} {name}".rstrip())
    if every:
        keys = [entry.name for entry in have if entry.source == OWN_SOURCE[kind]]
        if not keys:
            note("nothing was set")
            return
        if not dry_run:
            confirm(f"Unset {', '.join(keys)} of {kind.value} {name}?", yes)
    if not keys:
        raise CommandError("nothing to unset", "name the settings, or give --all", WRONG_USAGE)
    change(cluster, kind, name, [(Change.DELETE, key, None) for key in keys], dry_run)


def change(cluster: Connection, kind: Kind, name: str, changes: Changes, dry_run: bool) -> None:
    """Carry out changes, or let the cluster check them only."""
    _require(cluster, kind, name)
    with refusals.while_doing(f"cannot change {kind.value} {name!r}"):
        configs.alter(cluster, CALLED[kind], name, changes, validate_only=dry_run)
    for operation, key, value in changes:
        print(_line(kind, name, operation, key, value, dry_run))


VERBS: Final[Mapping[Change, str]] = {
    Change.SET: "set",
    Change.DELETE: "unset",
    Change.APPEND: "appended to",
    Change.SUBTRACT: "took from",
}


def _line(kind: Kind, name: str, operation: Change, key: str, value: str | None, dry_run: bool) -> str:
    what = f"{kind.value} {name}".rstrip()
    assignment = key if value is None else shown(key, value)
    return f"{what}: {'would have ' if dry_run else ''}{VERBS[operation]} {assignment}"
