"""Loggers of a process under Kafka's names of levels. Each test has loggers of its own."""

from __future__ import annotations

import logging

import pytest

from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.logger_levels import LOG_LEVELS
from moldau.server.broker_loggers import LEVELS, BrokerLoggers


@pytest.fixture
def root() -> logging.Logger:
    top = logging.RootLogger(logging.INFO)
    # As the logging module does for its own root.
    top.manager = logging.Manager(top)
    return top


def test_loggers_are_named_but_not_the_parts_of_their_names(root: logging.Logger) -> None:
    root.manager.getLogger("moldau.server.node")
    root.manager.getLogger("asyncio")
    assert BrokerLoggers(root).names() == ["root", "asyncio", "moldau.server.node"]


def test_levels_are_inherited_set_and_taken_back(root: logging.Logger) -> None:
    logger = root.manager.getLogger("moldau.server.node")
    loggers = BrokerLoggers(root)
    assert loggers.level("moldau.server.node") == "INFO"
    loggers.apply([SettingChange("moldau.server.node", AlterOperation.SET, "DEBUG")])
    assert loggers.level("moldau.server.node") == "DEBUG"
    assert logger.isEnabledFor(logging.DEBUG)
    loggers.apply([SettingChange("root", AlterOperation.SET, "ERROR")])
    loggers.apply([SettingChange("moldau.server.node", AlterOperation.DELETE, None)])
    assert loggers.level("moldau.server.node") == "ERROR"
    assert not logger.isEnabledFor(logging.WARNING)


@pytest.mark.parametrize("level", LOG_LEVELS)
def test_every_level_that_is_accepted_reads_back(root: logging.Logger, level: str) -> None:
    loggers = BrokerLoggers(root)
    loggers.apply([SettingChange("root", AlterOperation.SET, level)])
    assert loggers.level("root") == level


@pytest.mark.parametrize(("level", "shown"), [(1, "TRACE"), (25, "WARN"), (99, "FATAL")])
def test_levels_between_are_shown_as_the_next_quieter_one(root: logging.Logger, level: int, shown: str) -> None:
    root.setLevel(level)
    assert BrokerLoggers(root).level("root") == shown


def test_the_levels_are_those_that_the_rules_accept() -> None:
    assert set(LEVELS) == set(LOG_LEVELS)
