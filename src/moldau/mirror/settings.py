"""The property file of MirrorMaker 2, read whole: clusters, and one flow for each pair of them.

    clusters = us, eu
    us.bootstrap.servers = …          what begins with an alias is of that cluster; what concerns connections may also
    us.consumer.client.rack = …       be for its consumer (reading) or producer (writing) alone
    us->eu.enabled = true             what begins with a pair is of that flow, else it is of all of them
    topics = .*

All that is wrong is told at once. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.client.errors import SettingError
from moldau.client.settings import ClientSettings
from moldau.config.definition import ConfigError, Value
from moldau.config.java_patterns import compile_pattern
from moldau.config.service_tables import ServiceSettings, read_table
from moldau.mirror.policy import CLASSES, DEFAULT, IDENTITY, Policy

SETTINGS: Final = read_table(Path(__file__).with_name("settings.tsv"))
COMMON_CLIENT: Final = ("security.protocol", "ssl.", "sasl.")
"""What every cluster has unless it says something else."""
ROLES: Final = ("producer", "consumer", "admin")
ELSEWHERE: Final = re.compile(
    r"(config|status)\.storage\.|(key|value|header)\.converter|task\.|worker\.|dedicated\.mode\.|listeners|metric|"
    r"offset\.flush|exactly\.once|rest\.|plugin\.|transforms|config\.providers|replication\.policy\.|admin\.|"
    r"offset\.lag\.max|(topic|group|config\.property)\.filter\.class|consumer\.poll\.timeout\.ms|producer\.|consumer\.|"
    r"forwarding\.admin|name$|connector\.class|sync\.|refresh\.|client\.id|metadata\.|request\.timeout|group\.id"
)
"""Known to MirrorMaker 2 and Connect; here they have no meaning, or one that needs no setting."""
NEEDS_A_PLUGIN: Final = ("topic.filter.class", "group.filter.class", "config.property.filter.class")
CHOICES: Final = {
    "offset-syncs.topic.location": ("source", "target"),
    "use.defaults.from": ("source", "target"),
    "on.data.loss": ("continue", "fail"),
}
LEAST: Final = {"tasks.max": 1, "replication.factor": -1, "offset.storage.partitions": 1, "copy.batch.max.bytes": 1024}
ALIAS: Final = re.compile(r"[A-Za-z0-9._\-]+")


class MirrorSettingsError(ValueError):
    """What is wrong with the file, one line for each mistake."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Choice:
    """Which names are meant: those that match whole, and are not left out."""

    wanted: re.Pattern[str] | None
    unwanted: re.Pattern[str] | None

    def __contains__(self, name: str) -> bool:
        if self.wanted is None or not self.wanted.fullmatch(name):
            return False
        return self.unwanted is None or not self.unwanted.fullmatch(name)

    def __str__(self) -> str:
        wanted = self.wanted.pattern if self.wanted else ""
        return f"{wanted} without {self.unwanted.pattern}" if self.unwanted else wanted


@dataclass(frozen=True, slots=True)
class Flow(ServiceSettings):
    """What is copied from one cluster to another, and how."""

    source: str
    target: str
    policy: Policy
    topics: Choice
    groups: Choice
    unwanted_configs: re.Pattern[str] | None
    reading: Mapping[str, str]
    """How the source is reached to read, under Java's names."""
    writing: Mapping[str, str]
    former_source: str = ""
    """Under this name positions count too, if they are of the very topics that are copied now."""

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def enabled(self) -> bool:
        return self.flag("enabled")

    @property
    def positions_topic(self) -> str:
        return self.text("offset.storage.topic") or self.policy.positions(self.source)

    @property
    def syncs_in_target(self) -> bool:
        return self.text("offset-syncs.topic.location") == "target"

    @property
    def syncs_topic(self) -> str:
        """Named after the cluster at the other end."""
        return self.policy.offset_syncs(self.source if self.syncs_in_target else self.target)

    def copies(self, topic: str) -> bool:
        """Whether a topic of the source belongs to this flow."""
        chosen = topic in self.topics or (
            self.flag("heartbeats.replication.enabled") and self.policy.is_heartbeats(topic)
        )
        return chosen and not self.policy.is_internal(topic) and not self.policy.comes_from(topic, self.target)

    def remote(self, topic: str) -> str:
        return self.policy.remote(self.source, topic)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    clusters: tuple[str, ...]
    flows: tuple[Flow, ...]
    """Those into the clusters that are meant, enabled or not: heartbeats do without."""
    known: tuple[Flow, ...]
    """Each pair of clusters."""
    properties: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def flow(self, name: str) -> Flow:
        for flow in self.flows:
            if flow.name == name.replace(" ", ""):
                return flow
        known = ", ".join(flow.name for flow in self.flows) or "none"
        raise MirrorSettingsError([f"there is no flow {name}; there are: {known}"])

    @property
    def copying(self) -> tuple[Flow, ...]:
        return tuple(flow for flow in self.flows if flow.enabled)


def read_settings(properties: Mapping[str, str], clusters: Iterable[str] | None = None) -> MirrorSettings:
    """`clusters`: only flows into these (`--clusters`), for workers that stand near their target."""
    aliases = tuple(dict.fromkeys(part.strip() for part in properties.get("clusters", "").split(",") if part.strip()))
    problems = [
        f"clusters: {alias!r} is no alias: letters, digits, . _ -" for alias in aliases if not ALIAS.fullmatch(alias)
    ]
    if len(aliases) < 2:
        problems.append("clusters: the aliases of two clusters or more are needed, such as clusters = us, eu")
    wanted = set(aliases if clusters is None else clusters)
    problems += [f"--clusters: {each} is none of {', '.join(aliases)}" for each in sorted(wanted - set(aliases))]
    for alias in aliases:
        try:
            ClientSettings.from_properties(client_properties(properties, alias, "consumer"))
        except SettingError as error:
            problems.append(f"{alias}.{error}")
    known: list[Flow] = []
    for source in aliases:
        for target in aliases:
            if source != target:
                flow = read_flow(properties, source, target, problems)
                if flow is not None:
                    known.append(flow)
    flows = [flow for flow in known if flow.target in wanted]
    if aliases and not any(flow.enabled for flow in flows) and not problems:
        problems.append(f"no flow is enabled: set {aliases[0]}->{aliases[1]}.enabled = true, for example")
    if problems:
        raise MirrorSettingsError(problems)
    return MirrorSettings(aliases, tuple(flows), tuple(known), properties, tuple(unknown_keys(properties, aliases)))


def read_flow(properties: Mapping[str, str], source: str, target: str, problems: list[str]) -> Flow | None:
    """None where something is wrong, which is then among the problems."""
    before = len(problems)
    prefix = f"{source}->{target}."
    values: dict[str, Value] = {}
    for name, setting in SETTINGS.items():
        given = (f"{prefix}{name}", *(() if name == "enabled" else (f"{target}.{name}", name)))
        key = next((key for key in given if key in properties), None)
        try:
            values[name] = setting.default_value if key is None else setting.parse(properties[key])
            check_value(name, values[name])
        except ConfigError as error:
            problems.append(f"{key or name}: {error.allowed} (not {error.value!r})")
            values[name] = setting.default_value
    policy = read_policy(values, source, prefix, problems)
    patterns: dict[str, re.Pattern[str] | None] = {}
    for name in ("topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude"):
        listed = values[name]
        assert isinstance(listed, tuple)
        try:
            patterns[name] = compile_pattern("|".join(listed)) if listed else None
        except ValueError as error:
            problems.append(f"{prefix}{name}: {error}")
    if len(problems) > before:
        return None
    return Flow(
        values,
        source,
        target,
        policy,
        Choice(patterns["topics"], patterns["topics.exclude"]),
        Choice(patterns["groups"], patterns["groups.exclude"]),
        patterns["config.properties.exclude"],
        client_properties(properties, source, "consumer", f"{prefix}consumer."),
        client_properties(properties, target, "producer", f"{prefix}producer."),
    )


def check_value(name: str, value: Value) -> None:
    if name in CHOICES and value not in CHOICES[name]:
        raise ConfigError(name, str(value), " or ".join(CHOICES[name]))
    if name in LEAST and isinstance(value, int) and value < LEAST[name]:
        raise ConfigError(name, str(value), f"at least {LEAST[name]}")
    if name.endswith("interval.seconds") and isinstance(value, int) and value < 1:
        raise ConfigError(name, str(value), "at least 1; NAME.enabled = false turns it off")


def read_policy(values: Mapping[str, Value], source: str, prefix: str, problems: list[str]) -> Policy:
    named = str(values["replication.policy.class"])
    kind = CLASSES.get(named, named)
    if kind not in (DEFAULT, IDENTITY):
        problems.append(
            f"{prefix}replication.policy.class: {named} cannot be run here, it is Java; {DEFAULT} and {IDENTITY} can"
        )
    separator = str(values["replication.policy.separator"])
    if not re.fullmatch(r"[A-Za-z0-9._\-]+", separator):
        problems.append(f"{prefix}replication.policy.separator: {separator!r} cannot stand in the name of a topic")
    inner = separator if values["replication.policy.internal.topic.separator.enabled"] else "."
    return Policy(kind, separator or ".", inner, source)


def client_properties(properties: Mapping[str, str], alias: str, role: str, flow_prefix: str = "") -> dict[str, str]:
    """From the weakest to the strongest: common, the cluster's, its role's, the flow's."""
    found = {key: text for key, text in properties.items() if key.startswith(COMMON_CLIENT)}
    own = {key[len(alias) + 1 :]: text for key, text in properties.items() if key.startswith(f"{alias}.")}
    found |= {key: text for key, text in own.items() if key.split(".")[0] not in ROLES and key not in SETTINGS}
    found |= {key[len(role) + 1 :]: text for key, text in own.items() if key.startswith(f"{role}.")}
    if flow_prefix:
        found |= {key[len(flow_prefix) :]: text for key, text in properties.items() if key.startswith(flow_prefix)}
    return found


def unknown_keys(properties: Mapping[str, str], aliases: tuple[str, ...]) -> list[str]:
    """What nobody reads is told, with the name that was probably meant."""
    found = []
    for key in properties:
        name = key
        for prefix in (*(f"{a}->{b}." for a in aliases for b in aliases), *(f"{a}." for a in aliases)):
            if key.startswith(prefix):
                name = key[len(prefix) :]
                break
        if name in NEEDS_A_PLUGIN:
            found.append(f"{key}: a Java class cannot be run here; topics, groups and their .exclude choose")
        elif name == key and "->" in key.split(".")[0]:
            found.append(f"{key}: names a cluster that clusters does not list")
        elif (
            name not in SETTINGS
            and name != "clusters"
            and not ELSEWHERE.match(name)
            and not key.startswith(COMMON_CLIENT)
        ):
            if name != key and "->" not in key:
                continue  # a property of a cluster's clients
            near = difflib.get_close_matches(name, SETTINGS, 1)
            found.append(f"{key} is no setting" + (f"; {near[0]}?" if near else ""))
    return found
