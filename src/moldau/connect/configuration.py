"""A connector's whole configuration: what every connector has, its own, its converters', transforms' and predicates'.

`described` is what `validate` answers, `make_job` what is run; both find everything that is wrong at once.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import re2

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connector_settings import CLASS, SINK, SOURCE
from moldau.connect.converter_names import CONVERTERS, find_converter
from moldau.connect.converters import Converter
from moldau.connect.definitions import REQUIRED, ConfigDef, ConfigRefused, Key, Reading
from moldau.connect.interface import Connector, SourceConnector
from moldau.connect.plugins import PluginMissing, find, place_of
from moldau.connect.task import Errors, Job
from moldau.connect.topic_creation import PREFIX as TOPIC_CREATION
from moldau.connect.topic_creation import rules_of, settings_of
from moldau.connect.transforms import Stage
from moldau.connect.transforms.catalogue import PREDICATES, TRANSFORMS, find_predicate, find_transform

log = logging.getLogger(__name__)

NEAR: Final = 0.8
Given = Mapping[str, str | None]
CONVERTER_KEYS: Final = ("key.converter", "value.converter")
OF_EVERY_CONVERTER: Final = frozenset({"converter.type"})
OPEN: Final = (
    *(f"{key}." for key in CONVERTER_KEYS),
    "header.converter.",
    "producer.override.",
    "consumer.override.",
    "admin.override.",
    TOPIC_CREATION,
)
"""What names of settings may begin with that others look at."""


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """What connectors take from the worker where they say nothing."""

    converters: Mapping[str, str]
    """key.converter, value.converter and header.converter with what follows them."""
    kafka: Mapping[str, str]
    producer: Mapping[str, str]
    consumer: Mapping[str, str]
    group: str
    offsets_topic: str
    offsets_prefix: str = ""
    poll_ms: int = 500
    makes_topics: bool = True
    """As the settings topic.creation.* of sources say."""
    admin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Whole:
    """A configuration that was read."""

    connector: type[Connector]
    definition: ConfigDef
    reading: Reading


def read_whole(given: Given, connector: type[Connector]) -> Whole:
    source = issubclass(connector, SourceConnector)
    common = (SOURCE if source else SINK) + connector.CONFIG
    if source:
        common += settings_of(given)
    errors: dict[str, list[str]] = {}
    for key in aliases_of(given, "transforms"):
        common += embedded(given, key, "transforms", errors)
    for key in aliases_of(given, "predicates"):
        common += embedded(given, key, "predicates", errors)
    reading = common.read(given)
    for name, problems in errors.items():
        reading.errors.setdefault(name, []).extend(problems)
    check_together(given, reading, source)
    check_converters(given, reading)
    check_connector(given, connector, common, reading)
    # What is told of settings that are not defined is shown with the others.
    common += ConfigDef(*(Key(name) for name in reading.errors))
    return Whole(connector, common, reading)


def aliases_of(given: Given, kind: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in (given.get(kind) or "").split(",") if part.strip()))


def embedded(given: Given, alias: str, kind: str, errors: dict[str, list[str]]) -> ConfigDef:
    prefix = f"{kind}.{alias}."
    what = "transformation" if kind == "transforms" else "predicate"
    group = f"{kind.capitalize()}: {alias}"
    found = ConfigDef(
        Key(
            f"{prefix}type",
            ConfigType.CLASS,
            REQUIRED,
            f"Class for the '{alias}' {what}.",
            "HIGH",
            group=group,
            width="LONG",
        )
    )
    if kind == "transforms":
        found += ConfigDef(
            Key(f"{prefix}predicate", doc="The alias of a predicate: the records that it is for.", group=group),
            Key(f"{prefix}negate", ConfigType.BOOLEAN, "false", "Whether the predicate is negated.", group=group),
        )
    name = given.get(f"{prefix}type")
    if not name:
        return found
    try:
        plugin = find_transform(name)[0] if kind == "transforms" else find_predicate(name)
    except PluginMissing as problem:
        errors.setdefault(f"{prefix}type", []).append(f"Invalid value {name} for configuration {prefix}type: {problem}")
        return found
    return found + plugin.CONFIG.embedded(prefix, group)


def check_together(given: Given, reading: Reading, source: bool) -> None:
    if not source:
        topics, pattern = given.get("topics"), given.get("topics.regex")
        if not topics and not pattern:
            problem = "Must configure one of topics or topics.regex"
            reading.errors.setdefault("topics", []).append(problem)
            reading.errors.setdefault("topics.regex", []).append(problem)
        elif topics and pattern:
            problem = "topics and topics.regex are mutually exclusive options, but both are set."
            reading.errors.setdefault("topics", []).append(problem)
            reading.errors.setdefault("topics.regex", []).append(problem)
        try:
            re2.compile(pattern or "")
        except re2.error as error:
            told = f"Invalid value {pattern} for configuration topics.regex: it is no regular expression: {error}"
            reading.errors.setdefault("topics.regex", []).append(told)
        named = [part.strip() for part in (topics or "").split(",")]
        if len(set(named)) < len(named):
            reading.errors.setdefault("topics", []).append("Configuration 'topics' values must not be duplicated.")
        letters = given.get("errors.deadletterqueue.topic.name")
        if letters and letters in aliases_of(given, "topics"):
            reading.errors.setdefault("topics", []).append(
                f"The DLQ topic '{letters}' may not be included in the list of topics (\"topics={topics}\") consumed "
                "by the connector"
            )
    for alias in aliases_of(given, "transforms"):
        predicate = given.get(f"transforms.{alias}.predicate")
        if predicate and predicate not in aliases_of(given, "predicates"):
            reading.errors.setdefault(f"transforms.{alias}.predicate", []).append(
                f"{predicate} is none of the predicates: {given.get('predicates') or 'there are none'}"
            )
        if f"transforms.{alias}.negate" in given and not predicate:
            reading.errors.setdefault(f"transforms.{alias}.type", []).append(
                f"Config 'transforms.{alias}.negate' was provided but there is no config "
                f"'transforms.{alias}.predicate' defining a predicate to be negated."
            )


def check_connector(given: Given, connector: type[Connector], definition: ConfigDef, reading: Reading) -> None:
    """The connector's own rules; nothing more is said of settings that are wrong by themselves."""
    texts = {name: value for name, value in given.items() if value is not None}
    wrong = set(reading.errors)
    for name, problem in connector.problems({**texts, **definition.as_far_as_known(reading)}):
        if name not in wrong:
            reading.errors.setdefault(name, []).append(problem)


def check_converters(given: Given, reading: Reading) -> None:
    for key in CONVERTER_KEYS:
        name = given.get(key)
        if name is None:
            continue
        try:
            find_converter(name).CONFIG.checked(with_prefix(given, f"{key}."))
        except PluginMissing as problem:
            reading.errors.setdefault(key, []).append(f"Invalid value {name} for configuration {key}: {problem}")
        except ConfigRefused as problem:
            reading.errors.setdefault(key, []).extend(problem.problems)


def with_prefix(given: Given, prefix: str) -> dict[str, str | None]:
    return {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}


def described(given: Given, name: str) -> dict[str, Any]:
    """The answer of `validate`; `name` is the class as it was asked for."""
    connector = find(name)
    whole = read_whole(given, connector)
    groups = list(dict.fromkeys(key.group for key in whole.definition if key.group))
    return {
        "name": name,
        "error_count": sum(map(len, whole.reading.errors.values())),
        "groups": groups,
        "configs": whole.definition.described(given, whole.reading),
    }


def unknown(given: Given, whole: Whole) -> list[str]:
    """Settings that nobody knows, which are passed over as in Kafka Connect, each with the one that may be meant."""
    if not list(whole.connector.CONFIG):
        return []  # it does not say what it knows
    known = [key.name for key in whole.definition]
    found = []
    for name in given:
        if name in known or name.startswith((*OPEN, *whole.connector.OPEN)):
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=NEAR)
        found.append(f"{name} is not known, and passed over{f': did you mean {near[0]}?' if near else ''}")
    return found


# -- what is run -----------------------------------------------------------------------------------------------------


def checked(given: Given) -> Whole:
    """Raises ConfigRefused with everything that is wrong."""
    name = given.get(CLASS)
    if not name:
        raise ConfigRefused([f'Missing required configuration "{CLASS}" which has no default value.'])
    try:
        whole = read_whole(given, find(name))
    except PluginMissing as problem:
        raise ConfigRefused([str(problem)]) from None
    if whole.reading.errors:
        raise ConfigRefused(whole.reading.problems)
    return whole


def make_job(given: Mapping[str, str], worker: WorkerDefaults) -> Job:
    whole = checked(given)
    values = whole.reading.values
    name = str(values["name"])
    return Job(
        name=name,
        place=place_of(given[CLASS]),
        connector=whole.connector,
        config={**given, **values},
        tasks_max=values["tasks.max"],
        key_converter=make_converter(given, "key.converter", worker),
        value_converter=make_converter(given, "value.converter", worker),
        stages=make_stages(given),
        errors=make_errors(values),
        topics=tuple(values.get("topics") or ()),
        topics_pattern=values.get("topics.regex") or "",
        kafka=worker.kafka,
        producer={**worker.producer, **texts_with_prefix(given, "producer.override.")},
        consumer={**worker.consumer, **texts_with_prefix(given, "consumer.override.")},
        admin={**worker.admin, **texts_with_prefix(given, "admin.override.")},
        group=worker.group,
        offsets_topic=values.get("offsets.storage.topic") or worker.offsets_topic,
        offsets_name=f"{worker.offsets_prefix}{name}",
        poll_ms=worker.poll_ms,
        new_topics=rules_of(given, values)
        if worker.makes_topics and issubclass(whole.connector, SourceConnector)
        else (),
    )


def texts_with_prefix(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in with_prefix(given, prefix).items() if value is not None}


def make_converter(given: Given, key: str, worker: WorkerDefaults) -> Converter:
    """The connector's own; the worker's with the worker's settings otherwise."""
    chosen: Given = given if given.get(key) else worker.converters
    name = chosen.get(key)
    if not name:
        raise ConfigError(key, None, "neither the connector nor the worker has one")
    made, own = find_converter(name), with_prefix(chosen, f"{key}.")
    unused = sorted(own.keys() - {each.name for each in made.CONFIG} - OF_EVERY_CONVERTER)
    if unused and made in CONVERTERS.values():
        log.warning("%s does not know these settings, which have no effect: %s", made.__name__, ", ".join(unused))
    return made({**own, **made.CONFIG.checked(own)})


def make_stages(given: Given) -> Sequence[Stage]:
    stages = []
    for alias in aliases_of(given, "transforms"):
        prefix = f"transforms.{alias}."
        called = str(given[f"{prefix}type"])
        transform, side = find_transform(called)
        config = transform.CONFIG.checked(with_prefix(given, prefix))
        predicate = None
        if chosen := given.get(f"{prefix}predicate"):
            own = f"predicates.{chosen}."
            kind = find_predicate(str(given[f"{own}type"]))
            predicate = kind(kind.CONFIG.checked(with_prefix(given, own)))
        negate = (given.get(f"{prefix}negate") or "false").strip().lower() == "true"
        stages.append(Stage(alias, transform(config, side), predicate, negate, called))
    return stages


def make_errors(values: Mapping[str, Any]) -> Errors:
    prefix = "errors.deadletterqueue."
    return Errors(
        tolerated=values["errors.tolerance"] == "all",
        log=values["errors.log.enable"],
        log_records=values["errors.log.include.messages"],
        dead_letters=values.get(f"{prefix}topic.name") or "",
        dead_letter_replication=values.get(f"{prefix}topic.replication.factor") or 3,
        dead_letter_headers=bool(values.get(f"{prefix}context.headers.enable")),
        retry_ms=values["errors.retry.timeout"],
        longest_delay_ms=values["errors.retry.delay.max.ms"],
    )


def offered_plugins() -> list[tuple[str, str]]:
    """Class and type of everything but connectors."""
    found = [(name, "converter") for name in CONVERTERS]
    found += [(name, "transformation") for name in TRANSFORMS]
    return [*found, *((name, "predicate") for name in PREDICATES)]
