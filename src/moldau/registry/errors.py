"""The registry's errors, with the codes and texts of Confluent's."""

from __future__ import annotations

from moldau.web import ApiError


class RegistryError(ApiError):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(code // 100, message, code)


class Unread(RegistryError):
    """What a schema says was not found out; another time it may be."""

    def __init__(self, told: RegistryError) -> None:
        super().__init__(told.code, told.message)


class NotLeader(Exception):
    """This instance may not write (any more)."""


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(what: object = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if what is None else f"Schema {what} not found")


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, message)


def invalid_version(version: str) -> RegistryError:
    text = f"The specified version '{version}' is not a valid version id."
    return RegistryError(42202, f'{text} Allowed values are between [1, 2^31-1] and the string "latest"')


def invalid_level() -> RegistryError:
    names = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {names}")


def invalid_mode() -> RegistryError:
    names = "READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, and FORWARD"
    return RegistryError(42204, f"Invalid mode. Valid values are {names}")


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(42206, f"One or more references exist to the schema {key}.")


def too_large(why: str) -> RegistryError:
    return RegistryError(42209, f"Write failed because schema is too large: {why}")


def no_active_version(subject: str) -> RegistryError:
    return RegistryError(40907, f"No active (non-deleted) version exists for subject '{subject}'")


def store_failed(message: str) -> RegistryError:
    return RegistryError(50001, f"Error in the backend data store: {message}")


def timed_out(message: str) -> RegistryError:
    return RegistryError(50002, f"Operation timed out: {message}")
