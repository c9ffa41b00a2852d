"""The tables of settings, read once when they are first asked for.

A table is a text file beside this module: one setting per line, in the order in which Apache Kafka 4.3 defines (and so
checks) them, with tabs between the columns

    name  type  default  validator  update  honoured  doc

`null` stands for no default. `update` is read-only, per-broker or cluster-wide, followed by `internal` where
DescribeConfigs hides the setting until it is set. `honoured` is the one place that says whether the broker obeys a
setting or only accepts it.
"""

from functools import cache
from pathlib import Path

from moldau.config.definition import ConfigType, Setting, Settings, Update

NOT_HONOURED = "Accepted for compatibility with Apache Kafka; it has no effect on this broker."

_TYPES = {kind.name: kind for kind in ConfigType}
_UPDATES = {update.value: update for update in Update}


def _read(file: str) -> Settings:
    lines = (Path(__file__).with_name(file)).read_text(encoding="utf-8").splitlines()
    return {(setting := _setting(line)).name: setting for line in lines[1:]}


def _setting(line: str) -> Setting:
    name, kind, default, validator, update, honoured, doc = line.split("\t")
    mode, _, visibility = update.partition(" ")
    return Setting(
        name=name,
        type=_TYPES[kind],
        default=None if default == "null" else default,
        validator=validator,
        update=_UPDATES[mode],
        internal=visibility == "internal",
        honoured=honoured == "yes",
        doc=doc or NOT_HONOURED,
    )


@cache
def broker_settings() -> Settings:
    """Every setting of a broker."""
    return _read("broker_settings.tsv")


@cache
def topic_settings() -> Settings:
    """Every setting that a topic can have of its own."""
    return _read("topic_settings.tsv")


@cache
def group_settings() -> Settings:
    """Every setting that a group can have of its own."""
    return _read("group_settings.tsv")


@cache
def client_metrics_settings() -> Settings:
    """Every setting of a subscription to client metrics."""
    return _read("client_metrics_settings.tsv")
