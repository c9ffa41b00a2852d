"""What a handler raises to answer with an error."""

from __future__ import annotations

from collections.abc import Mapping


class ApiError(Exception):
    """`code` is the service's own, five digits that begin with the status; without one the status is told again."""

    def __init__(
        self, status: int, message: str, code: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code
        self.message = message
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, object]:
        return {"error_code": self.code, "message": self.message}
