"""Where each value comes from, as DescribeConfigs tells it: sources, synonyms, types, documentation.

Settings are laid over each other, the strongest first: a topic's (or group's) own, the broker's dynamic ones, the
cluster's dynamic defaults, the broker's properties, the defaults. An entry's synonyms are all layers that hold a value
for it under any of its names, from the first that holds it under its main name on; its source is the first of them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from moldau.config.broker import BrokerConfig
from moldau.config.definition import Setting, Settings, text_of
from moldau.config.synonyms import GROUP_TO_BROKER, TOPIC_TO_BROKER, broker_synonyms, milliseconds_in, topic_synonyms
from moldau.config.tables import broker_settings, client_metrics_settings, group_settings, topic_settings


class ConfigSource(IntEnum):
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


# The `config_type` of a name that nobody knows.
UNKNOWN_TYPE = 0


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One line of an answer to DescribeConfigs."""

    name: str
    value: str | None
    source: ConfigSource
    type: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Everything about a broker; no names, or none at all, ask for everything."""
    entries = []
    for name in _wanted((*_given(config), *_visible(broker_settings())), names):
        setting = _broker_setting(name)
        known = config.values.get(name)
        value = text_of(known) if name in config.values else _given(config)[name]
        entries.append(
            _broker_entry(name, setting, value, _broker_layers(config, name, broker_synonyms(name), setting))
        )
    return entries


def describe_broker_defaults(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The cluster's dynamic defaults for brokers: those that are set, and nothing of the layers beneath."""
    entries = []
    for name in _wanted(config.origins.cluster_default, names):
        setting = _broker_setting(name)
        layers = _broker_layers(config, name, broker_synonyms(name), setting)
        own = tuple(layer for layer in layers if layer.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entries.append(_broker_entry(name, setting, config.origins.cluster_default[name], own))
    return entries


def describe_topic(
    overrides: Mapping[str, str], config: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Everything about a topic that has these settings of its own."""
    settings = topic_settings()
    shown = dict.fromkeys((*(name for name in overrides if name in settings), *_visible(settings)))
    entries = []
    for name in _wanted(shown, names):
        setting = settings[name]
        value = setting.parse(overrides[name]) if name in overrides else config.topic_defaults[name]
        layers: tuple[ConfigSynonym, ...] = ()
        if name in TOPIC_TO_BROKER:
            broker_name = TOPIC_TO_BROKER[name]
            layers = _broker_layers(config, broker_name, broker_synonyms(broker_name), setting)
        own = name in overrides
        entries.append(_entry(setting, text_of(value), ConfigSource.DYNAMIC_TOPIC_CONFIG if own else None, layers))
    return entries


def describe_group(
    overrides: Mapping[str, str], config: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Everything about a group that has these settings of its own."""
    entries = []
    settings = group_settings()
    for name in _wanted(_visible(settings), names):
        setting = settings[name]
        broker_name = GROUP_TO_BROKER.get(name)
        if broker_name is None:
            inherited = setting.default_value
            layers: tuple[ConfigSynonym, ...] = (ConfigSynonym(name, setting.default, ConfigSource.DEFAULT_CONFIG),)
        else:
            inherited = config.values[broker_name]
            layers = _broker_layers(config, broker_name, (broker_name,), setting)
        value = setting.parse(overrides[name]) if name in overrides else inherited
        own = ConfigSource.GROUP_CONFIG if name in overrides else None
        entries.append(_entry(setting, text_of(value), own, layers))
    return entries


def describe_client_metrics(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Everything about a subscription to client metrics."""
    entries = []
    settings = client_metrics_settings()
    for name in _wanted(_visible(settings), names):
        setting = settings[name]
        value = setting.parse(overrides[name]) if name in overrides else setting.default_value
        own = ConfigSource.CLIENT_METRICS_CONFIG if name in overrides else None
        entries.append(_entry(setting, text_of(value), own, ()))
    return entries


def created_topic_configs(overrides: Mapping[str, str], config: BrokerConfig) -> list[ConfigSynonym]:
    """What CreateTopics tells about the new topic: every setting, its value as written, its source."""
    layers = (
        (config.origins.per_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.origins.cluster_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.origins.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    told = []
    for name, setting in sorted(topic_settings().items()):
        if setting.internal and name not in overrides:
            continue
        found = ConfigSynonym(name, setting.default, ConfigSource.DEFAULT_CONFIG)
        if name in overrides:
            found = ConfigSynonym(name, overrides[name], ConfigSource.DYNAMIC_TOPIC_CONFIG)
        else:
            for values, source in layers:
                synonym = next((synonym for synonym in topic_synonyms(name) if synonym in values), None)
                if synonym is not None:
                    found = ConfigSynonym(name, milliseconds_in(synonym, values[synonym]), source)
                    break
        told.append(found)
    return told


def _visible(settings: Settings) -> dict[str, Setting]:
    return {name: setting for name, setting in settings.items() if not setting.internal}


def _wanted(available: Iterable[str], names: Collection[str] | None) -> list[str]:
    distinct = dict.fromkeys(available)
    return [name for name in distinct if name in names] if names else list(distinct)


def _given(config: BrokerConfig) -> dict[str, str]:
    """Names that nobody knows, or that are hidden, are shown once somebody has set them."""
    settings = broker_settings()
    written = {**config.origins.static, **config.origins.cluster_default, **config.origins.per_broker}
    return {name: text for name, text in written.items() if name not in settings or settings[name].internal}


def _broker_setting(name: str) -> Setting | None:
    settings = broker_settings()
    return settings.get(name) or next((settings[other] for other in broker_synonyms(name) if other in settings), None)


def _broker_layers(
    config: BrokerConfig, name: str, synonyms: tuple[str, ...], setting: Setting | None
) -> tuple[ConfigSynonym, ...]:
    hidden = setting is None or setting.sensitive
    settings = broker_settings()
    defaults = {
        synonym: default
        for synonym in synonyms
        if synonym in settings and (default := settings[synonym].default) is not None
    }
    layers: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
        (config.origins.per_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.origins.cluster_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.origins.static, ConfigSource.STATIC_BROKER_CONFIG),
        (defaults, ConfigSource.DEFAULT_CONFIG),
    )
    found = [
        ConfigSynonym(synonym, None if hidden else values[synonym], source)
        for values, source in layers
        for synonym in synonyms
        if synonym in values
    ]
    start = next((index for index, layer in enumerate(found) if layer.name == name), len(found))
    return tuple(found[start:])


def _broker_entry(
    name: str, setting: Setting | None, value: str | None, layers: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    hidden = setting is None or setting.sensitive
    return ConfigEntry(
        name=name,
        value=None if hidden else value,
        source=layers[0].source if layers else ConfigSource.DEFAULT_CONFIG,
        type=UNKNOWN_TYPE if setting is None else setting.type,
        # A setting of one listener is looked up by its full name, which no table holds.
        read_only=setting is None or setting.name != name or setting.read_only,
        sensitive=hidden,
        synonyms=layers,
        documentation=None if setting is None or setting.name != name else setting.doc,
    )


def _entry(
    setting: Setting, value: str | None, own: ConfigSource | None, layers: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    synonyms = layers if own is None else (ConfigSynonym(setting.name, value, own), *layers)
    return ConfigEntry(
        name=setting.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        type=setting.type,
        read_only=False,
        sensitive=setting.sensitive,
        synonyms=synonyms,
        documentation=setting.doc,
    )
