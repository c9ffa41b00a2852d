"""Errors that a client is told: a Kafka code, and a message where Kafka gives one."""

from __future__ import annotations

from moldau.types.error_codes import ErrorCode

__all__ = ("ErrorCode", "KafkaError")


class KafkaError(Exception):
    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
