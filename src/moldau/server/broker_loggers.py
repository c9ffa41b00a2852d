"""The loggers of this process, with Kafka's names of the levels: what Kafka calls the settings of a broker's logger."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.logger_levels import ROOT_LOGGER

#: From the most to the least talkative.
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


class BrokerLoggers:
    def __init__(self, root: logging.Logger) -> None:
        self._root = root

    def names(self) -> list[str]:
        """The root and every logger that somebody has asked for, but none that merely stands for a part of a name."""
        known = self._root.manager.loggerDict
        return [ROOT_LOGGER, *sorted(name for name, found in known.items() if isinstance(found, logging.Logger))]

    def level(self, name: str) -> str:
        """The level that holds for this logger, its own or an inherited one."""
        effective = self._logger(name).getEffectiveLevel()
        return next((kafka_name for kafka_name, level in LEVELS.items() if effective <= level), "FATAL")

    def apply(self, changes: Sequence[SettingChange]) -> None:
        """Makes changes that were found to be in order."""
        for change in changes:
            if change.operation == AlterOperation.SET and change.value is not None:
                self._logger(change.name).setLevel(LEVELS[change.value])
            elif change.operation == AlterOperation.DELETE:
                self._logger(change.name).setLevel(logging.NOTSET)

    def _logger(self, name: str) -> logging.Logger:
        return self._root if name == ROOT_LOGGER else self._root.manager.getLogger(name)
