"""What `moldau registry …` does: questions to a registry over HTTP, and their answers for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

from moldau.cli.connection import read_properties
from moldau.cli.output import (
    FAILED,
    NOT_FOUND,
    UNREACHABLE,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    note,
    warn_of_readers,
)
from moldau.cli.output import (
    show as show_tables,
)
from moldau.cli.registry_access import access_to
from moldau.clients.registry_access import Access

KINDS: Final = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
SECONDS: Final = 30.0
READWRITE, IMPORT = "READWRITE", "IMPORT"
DEFAULT: Final = "."
EVERY: Final = ":*:"
QUOTE: Final = "'"
NO_ASSOCIATIONS: Final = (404, 405)
OF_RESOURCE: Final = ("resourceName", "resourceNamespace", "resourceId", "resourceType")
OF_ASSOCIATION: Final = ("subject", "associationType", "lifecycle", "frozen")
KNOWN_LINES: Final = frozenset({"config", "mode", "version", "association"})


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def at(url: str, command_config: Path | None) -> Access:
    properties = {} if command_config is None else read_properties(command_config)
    if command_config is not None:
        warn_of_readers(command_config, properties)
    return access_to("--url", url, properties)


def ask(registry: Access, method: str, path: str, body: Any = None, **query: Any) -> Any:
    address = registry.addresses[0]
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    if address.authorization:
        headers["Authorization"] = address.authorization
    given = {key: str(value).lower() if isinstance(value, bool) else value for key, value in query.items()}
    data = None if body is None else json.dumps(body).encode()
    url = f"{address.url}{path}"
    request = Request(f"{url}?{urlencode(given)}" if given else url, data, headers, method=method)
    try:
        with registry.opened(request, SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except HTTPError as error:
        raise refusal(error) from None
    except (URLError, OSError, ValueError) as error:
        raise CommandError(f"{address.url} cannot be asked: {error}", exit_code=UNREACHABLE) from None


def refusal(error: HTTPError) -> Refused:
    try:
        body = json.loads(error.read())
        return Refused(error.code, int(body["error_code"]), str(body["message"]))
    except (ValueError, KeyError, TypeError):
        return Refused(error.code, error.code, str(error.reason))


def asked(registry: Access, method: str, path: str, body: Any = None, **query: Any) -> Any:
    """The answer; a refusal ends the command."""
    try:
        return ask(registry, method, path, body, **query)
    except Refused as error:
        code = NOT_FOUND if error.status == 404 else FAILED
        raise CommandError(f"{error} ({error.code})", exit_code=code) from None


def of_subject(subject: str, *more: str) -> str:
    return "/".join(["/subjects", quote(subject, safe=""), *more])


def list_subjects(registry: Access, prefix: str, deleted: bool, output: Format) -> None:
    found: dict[str, dict[str, Any]] = {}
    for each in asked(registry, "GET", "/schemas", subjectPrefix=prefix, deleted=deleted):
        row = found.setdefault(each["subject"], {"subject": each["subject"], "versions": []})
        row["versions"].append(each["version"])
        row |= {"type": each.get("schemaType", "AVRO"), "latest_id": each["id"]}
    rows = [
        (each["subject"], each["type"], ", ".join(map(str, each["versions"])), each["latest_id"])
        for each in found.values()
    ]
    columns = (Column("subject"), Column("type"), Column("versions"), Column("latest id"))
    show_tables(output, list(found.values()), lambda: [Table(columns, rows=list(rows))], "no subjects")


def show(registry: Access, subject: str, version: str, output: Format) -> None:
    found = asked(registry, "GET", of_subject(subject, "versions", quote(version, safe="")))
    if output.for_programs:
        show_tables(output, found, list)
        return
    kind = found.get("schemaType", "AVRO")
    note(f"{found['subject']}, version {found['version']}, id {found['id']}, {kind}")
    print(
        found["schema"] if kind == "PROTOBUF" else json.dumps(json.loads(found["schema"]), indent=2, ensure_ascii=False)
    )
    for each in found.get("references", ()):
        note(f"refers to {each['name']}: {each['subject']}, version {each['version']}")


def request_of(file: Path, kind: str | None, references: list[str]) -> dict[str, Any]:
    chosen = kind.upper() if kind else KINDS.get(file.suffix.lower())
    if chosen not in KINDS.values():
        raise CommandError(f"{file}: say --type AVRO, JSON or PROTOBUF", exit_code=WRONG_USAGE)
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}", exit_code=WRONG_USAGE) from None
    return {"schema": text, "schemaType": chosen, "references": [reference_of(each) for each in references]}


def reference_of(text: str) -> dict[str, Any]:
    name, equals, rest = text.partition("=")
    subject, colon, version = rest.rpartition(":")
    if not equals or not colon or not version.isdigit():
        raise CommandError(f"--reference {text}: expected NAME=SUBJECT:VERSION", exit_code=WRONG_USAGE)
    return {"name": name, "subject": subject, "version": int(version)}


def register(
    registry: Access, subject: str, file: Path, kind: str | None, references: list[str], normalize: bool
) -> None:
    body = request_of(file, kind, references)
    print(asked(registry, "POST", of_subject(subject, "versions"), body, normalize=normalize)["id"])


def check(
    registry: Access, subject: str, file: Path, kind: str | None, references: list[str], version: str | None
) -> None:
    parts = ["versions", quote(version, safe="")] if version else ["versions"]
    body = request_of(file, kind, references)
    found = asked(registry, "POST", f"/compatibility{of_subject(subject, *parts)}", body, verbose=True)
    if found["is_compatible"]:
        note("compatible")
        return
    for message in found.get("messages", ()):
        print(readable(message))
    raise CommandError(f"not compatible with subject {subject}", exit_code=FAILED)


def readable(message: str) -> str:
    """A difference without its braces: what, then where."""
    kind, found, rest = message.strip("{}").partition(", description:'")
    if not found:
        return f"  {message.strip('{}')}"
    told = rest.rpartition(", additionalInfo:")[0] or rest
    return f"{kind.removeprefix('errorType:').strip(QUOTE)}\n  {told.strip(QUOTE)}"


def level(registry: Access, subject: str | None, new: str | None) -> None:
    path = of_settings("config", subject)
    if new is None:
        print(asked(registry, "GET", path, defaultToGlobal=True)["compatibilityLevel"])
    else:
        print(asked(registry, "PUT", path, {"compatibility": new})["compatibility"])


def delete(registry: Access, subject: str, version: str | None, permanent: bool) -> None:
    parts = [] if version is None else ["versions", quote(version, safe="")]
    found = asked(registry, "DELETE", of_subject(subject, *parts), permanent=permanent)
    gone = found if isinstance(found, list) else [found]
    note(f"deleted {'for good ' if permanent else ''}{subject}: {', '.join(map(str, gone))}")


def export(registry: Access, prefix: str) -> None:
    print(json.dumps({"config": asked(registry, "GET", "/config")}))
    mode = asked(registry, "GET", "/mode")["mode"]
    if mode != READWRITE:
        print(json.dumps({"mode": mode}))
    versions = asked(registry, "GET", "/schemas", subjectPrefix=prefix, deleted=False)
    contexts = [f":{context}:" for context in asked(registry, "GET", "/contexts") if is_meant(context, prefix)]
    for subject in [*contexts, *sorted({each["subject"] for each in versions})]:
        config, mode = own(registry, "config", subject), own(registry, "mode", subject)
        if config is not None:
            print(json.dumps({"config": config, "subject": subject}))
        if mode is not None:
            print(json.dumps({"mode": mode["mode"], "subject": subject}))
    for each in sorted(versions, key=lambda each: (each["id"], each["subject"], each["version"])):
        print(json.dumps({"version": each}))
    for subject in sorted({each["subject"] for each in versions}):
        for found in associations(registry, subject):
            print(json.dumps({"association": found}))


def associations(registry: Access, subject: str) -> list[dict[str, Any]]:
    """None where the registry does not know of such a thing."""
    try:
        found: list[dict[str, Any]] = ask(registry, "GET", f"/associations/subjects/{quote(subject, safe='')}")
        return found
    except Refused as error:
        if error.status in NO_ASSOCIATIONS:
            return []
        raise CommandError(f"{error} ({error.code})", exit_code=FAILED) from None


def associate(registry: Access, found: dict[str, Any]) -> bool:
    """Whether the registry knows of such a thing."""
    resource = {name: found[name] for name in OF_RESOURCE if name in found}
    its = {name: found[name] for name in OF_ASSOCIATION if name in found}
    try:
        ask(registry, "POST", "/associations", {**resource, "associations": [its]})
    except Refused as error:
        if error.status not in NO_ASSOCIATIONS:
            raise CommandError(f"{error} ({error.code})", exit_code=FAILED) from None
        return False
    return True


def is_meant(context: str, prefix: str) -> bool:
    """Whether the subjects with a prefix are those of a context, with none left out."""
    return prefix in (EVERY, f":{context}:") or (not prefix and context == DEFAULT)


def own(registry: Access, setting: str, subject: str) -> dict[str, Any] | None:
    """The config or the mode that a subject has itself."""
    try:
        found: dict[str, Any] = ask(registry, "GET", of_settings(setting, subject))
        return found
    except Refused as error:
        if error.status == 404:
            return None
        raise CommandError(str(error), exit_code=FAILED) from None


def of_settings(setting: str, subject: str | None) -> str:
    return f"/{setting}" if subject is None else f"/{setting}/{quote(subject, safe='')}"


def load(registry: Access, file: Path) -> None:
    """Subjects are in import mode while they are filled, and in their own again then; what is there already with the
    same id stays."""
    lines = read_lines(file)
    versions = [line["version"] for line in lines if "version" in line]
    subjects = sorted({each["subject"] for each in versions})
    set_config(registry, [line for line in lines if "config" in line and "subject" not in line])
    before = {subject: own(registry, "mode", subject) for subject in subjects}
    try:
        for subject in subjects:
            set_mode(registry, subject, IMPORT)
        for each in versions:
            kept = ("schema", "schemaType", "references", "metadata", "ruleSet", "id", "version")
            body = {key: each[key] for key in kept if key in each}
            asked(registry, "POST", of_subject(each["subject"], "versions"), body)
        set_config(registry, [line for line in lines if "config" in line and "subject" in line])
    finally:
        for subject, mode in before.items():
            if mode is not None:
                set_mode(registry, subject, mode["mode"])
            elif own(registry, "mode", subject) is not None:
                asked(registry, "DELETE", of_settings("mode", subject))
    left_out = [not associate(registry, line["association"]) for line in lines if "association" in line]
    if any(left_out):
        note(f"{sum(left_out)} associations are left out: the registry has none")
    for line in lines:
        if "mode" in line:
            set_mode(registry, line.get("subject"), line["mode"])
    note(f"{len(versions)} versions of {len(subjects)} subjects are there")


def set_config(registry: Access, lines: list[dict[str, Any]]) -> None:
    """What is set already is not set again: where all is read-only, it could not be."""
    for line in lines:
        subject, config = line.get("subject"), line["config"]
        known = asked(registry, "GET", "/config") if subject is None else own(registry, "config", subject)
        if known != config:
            asked(registry, "PUT", of_settings("config", subject), config)


def set_mode(registry: Access, subject: str | None, mode: str) -> None:
    asked(registry, "PUT", of_settings("mode", subject), {"mode": mode}, force=True)


def read_lines(file: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            content = json.loads(line)
        except ValueError as error:
            raise CommandError(f"{file}, line {number}: {error}", exit_code=WRONG_USAGE) from None
        if not isinstance(content, dict) or not (KNOWN_LINES & set(content)):
            raise CommandError(f"{file}, line {number}: not of an export", exit_code=WRONG_USAGE)
        found.append(content)
    return found
