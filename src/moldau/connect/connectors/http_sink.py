"""Records to an HTTP API, under the settings of Confluent's HTTP sink.

`http.api.url` and `batch.key.pattern` may hold `${topic}`, `${partition}`, `${offset}` and `${key}`. Records that
follow each other and go to one address share a request, `batch.max.size` at most.

**Repetitions.** HTTP has no transactions. After a crash requests are made again: with PUT to an address that names the
key or the place this changes nothing. Every request says in `Idempotency-Key` which records it holds
(`topic+partition+offset`, with `-offset` of the last one behind it where there are several), so that a server can
leave out what it has had; behind a POST without such a server a record can arrive twice. With `batch.max.size` above 1
batches may be cut in other places when they are made again.

**What is told.** The statuses of `retry.on.status.codes`, and a connection that breaks, are tried again, at the time
that `Retry-After` says if it says one. 400, 409, 413, 415 and 422 are the records' fault: those of the request are
refused. Every other status ends the task, with `behavior.on.error=fail`.

**Not here.** OAuth 2, proxies, and topics with reports of answers (`reporter.*`): such settings are refused, or told to
be without effect.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit

from moldau.config.definition import ConfigType
from moldau.connect.connectors.documents import document_of, json_text, key_text, place_of
from moldau.connect.connectors.http_calls import (
    TLS,
    Caller,
    CallRefused,
    Retries,
    basic,
    in_ranges,
    tls_context,
)
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of_any_case, refusals
from moldau.connect.interface import RecordRefused, SinkConnector, SinkRecord

log = logging.getLogger(__name__)

FAIL, IGNORE, LOG, DELETE = "fail", "ignore", "log", "delete"
STRING, JSON = "string", "json"
NONE, BASIC = "none", "basic"
TLS_PREFIX: Final = "https."
THE_RECORDS_FAULT: Final = frozenset({400, 409, 413, 415, 422})
REFUSED_SETTINGS: Final = ("http.proxy.host", "oauth2.token.url")


class HttpSink(SinkConnector):
    EXACT: ClassVar = "PUT to an address of the record's own; every request names its records in Idempotency-Key"
    CONFIG: ClassVar = ConfigDef(
        Key("http.api.url", default=REQUIRED, doc="Where records are sent.", importance="HIGH", check=not_empty),
        Key(
            "request.method",
            default="POST",
            doc="POST, PUT or PATCH.",
            importance="HIGH",
            check=one_of_any_case("post", "put", "patch"),
        ),
        Key("headers", default="", doc="Headers of the requests, as name:value|name:value.", importance="HIGH"),
        Key("header.separator", default="|", doc="What stands between two of them.", importance="HIGH"),
        Key(
            "request.body.format",
            default=STRING,
            doc="string: values as text, structs as JSON; json: every value as JSON.",
            check=one_of_any_case(STRING, JSON),
        ),
        Key("batch.max.size", ConfigType.INT, "1", "The most records in a request.", "HIGH", at_least(1)),
        Key("batch.key.pattern", default="", doc="Records with different results of it share no request."),
        Key("batch.prefix", default="", doc="Before the records of a request.", importance="HIGH"),
        Key("batch.suffix", default="", doc="Behind them.", importance="HIGH"),
        Key("batch.separator", default=",", doc="Between them; \\n is a line feed.", importance="HIGH"),
        Key(
            "batch.json.as.array",
            ConfigType.BOOLEAN,
            "false",
            "With request.body.format=json: the records are elements of an array, even a single one.",
            "HIGH",
        ),
        Key("regex.patterns", default="", doc="Patterns that are replaced in each value."),
        Key("regex.replacements", default="", doc="What is put in their places."),
        Key("regex.separator", default="~", doc="What stands between two patterns, or replacements."),
        Key(
            "behavior.on.null.values",
            default=IGNORE,
            doc="What becomes of tombstones: ignore, log, delete (a DELETE of the address, which has to hold ${key}) "
            "or fail (refused).",
            importance="LOW",
            check=one_of_any_case(IGNORE, LOG, DELETE, FAIL),
        ),
        Key(
            "behavior.on.error",
            default=FAIL,
            doc="What an answer that says no means: fail, or ignore or log (the records are left out).",
            importance="LOW",
            check=one_of_any_case(FAIL, IGNORE, LOG),
        ),
        Key(
            "retry.on.status.codes",
            default="408,429,500-",
            doc="Statuses after which a request is made again. Confluent's default, 400-, also repeats what is wrong.",
        ),
        Key("max.retries", ConfigType.INT, "10", "How often a request is made again."),
        Key("retry.backoff.ms", ConfigType.INT, "3000", "The pause before the first time, doubled each time."),
        Key("http.connect.timeout.ms", ConfigType.INT, "30000", "How long a connection may take.", "LOW", at_least(1)),
        Key("http.request.timeout.ms", ConfigType.INT, "30000", "How long an answer may take.", "LOW", at_least(1)),
        Key("auth.type", default=NONE, doc="none or basic.", importance="HIGH", check=one_of_any_case(NONE, BASIC)),
        Key("connection.user", doc="Who logs in."),
        Key("connection.password", ConfigType.PASSWORD, doc="The password."),
        Key("reporter.result.topic.name", default="", doc="Accepted: answers are not reported.", importance="LOW"),
        Key("reporter.error.topic.name", default="", doc="Accepted: see errors.deadletterqueue.topic.name."),
    ) + TLS.embedded(TLS_PREFIX, "Security")

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for name in REFUSED_SETTINGS:
            if config.get(name):
                yield name, f"{name} is not known here"
        url, on_null = config["http.api.url"], "behavior.on.null.values"
        if config[on_null].lower() == DELETE and "${key}" not in url:
            yield on_null, f"{on_null}=delete needs ${{key}} in http.api.url"
        if urlsplit(url).scheme not in ("http", "https"):
            yield "http.api.url", "http.api.url begins with http:// or https://"
        yield from refusals("headers", lambda: headers_of(config["headers"], config["header.separator"]))
        yield from refusals("retry.on.status.codes", lambda: in_ranges(config["retry.on.status.codes"]))
        yield from refusals("regex.patterns", lambda: replacements(config))
        if config["auth.type"].lower() == BASIC and not (config["connection.user"] and config["connection.password"]):
            yield "auth.type", f"auth.type={BASIC} needs connection.user and connection.password"

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._on_null = config["behavior.on.null.values"].lower()
        self._on_error = config["behavior.on.error"].lower()
        self._format = config["request.body.format"].lower()
        self._headers = headers_of(config["headers"], config["header.separator"])
        self._retried = in_ranges(config["retry.on.status.codes"])
        self._replacements = replacements(config)
        self._caller: Caller | None = None

    def close(self) -> None:
        if self._caller is not None:
            self._caller.close()

    def write(self, records: Iterator[SinkRecord]) -> None:
        batch: list[tuple[SinkRecord, str]] = []
        shared: tuple[object, ...] | None = None
        for record in records:
            if record.value is None and self._on_null != DELETE:
                self._without_value(record)
                continue
            try:
                place, url = self._place(record), self._url(record)
                text = None if record.value is None else self._text(record)
            except RecordRefused as problem:
                self.refuse(record, problem)
                continue
            if text is None:
                self._send(batch, shared)
                batch, shared = [], None
                self._call("DELETE", url, None, [record])
                continue
            # In a request are records of one partition alone, so that its name says which.
            of_this = (url, place, record.source)
            if batch and (of_this != shared or len(batch) == self.config["batch.max.size"]):
                self._send(batch, shared)
                batch = []
            batch.append((record, text))
            shared = of_this
        self._send(batch, shared)

    def _without_value(self, record: SinkRecord) -> None:
        if self._on_null == FAIL:
            self.refuse(
                record, RecordRefused(f"{place_of(record)} is a tombstone, and behavior.on.null.values is fail")
            )
        elif self._on_null == LOG:
            log.warning("left out: %s is a tombstone", place_of(record))

    def _url(self, record: SinkRecord) -> str:
        return filled(self.config["http.api.url"], record, lambda text: quote(text, safe=""))

    def _place(self, record: SinkRecord) -> str:
        return filled(self.config["batch.key.pattern"], record, str)

    def _text(self, record: SinkRecord) -> str:
        value = record.value
        if self._format == STRING and isinstance(value, bytes):
            try:
                text = value.decode()
            except UnicodeDecodeError:
                raise RecordRefused(f"{place_of(record)}: the value is no text") from None
        elif self._format == STRING and isinstance(value, str):
            text = value
        else:
            text = json_text(record, document_of(record) if isinstance(value, bytes) else value)
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        return text

    # -- requests ----------------------------------------------------------------------------------------------------

    def _send(self, batch: Sequence[tuple[SinkRecord, str]], shared: tuple[object, ...] | None) -> None:
        if not batch or shared is None:
            return
        # Blanks at the ends of a setting are cut off, a line feed too.
        body = self.config["batch.separator"].replace("\\n", "\n").join(text for _, text in batch)
        if self._format == JSON and self.config["batch.json.as.array"]:
            body = f"[{body}]"
        body = f"{self.config['batch.prefix']}{body}{self.config['batch.suffix']}"
        self._call(self.config["request.method"].upper(), str(shared[0]), body.encode(), [each for each, _ in batch])

    def _call(self, method: str, url: str, body: bytes | None, records: Sequence[SinkRecord]) -> None:
        kind = "application/json" if self._format == JSON else "text/plain; charset=utf-8"
        headers = {"Content-Type": kind} if body is not None else {}
        first, last = records[0], records[-1]
        name = f"{first.source.topic}+{first.partition}+{first.order}"
        headers["Idempotency-Key"] = f"{name}-{last.order}" if len(records) > 1 else name
        answer = self._open().call(method, url, body, {**headers, **self._headers})
        if answer.ok or (method == "DELETE" and answer.status in (404, 410)):
            return
        problem = CallRefused(f"{method} {url}", answer)
        if self._on_error != FAIL:
            if self._on_error == LOG:
                log.warning("left out: %s: %s", name, problem)
            return
        if answer.status not in THE_RECORDS_FAULT:
            raise problem
        for record in records:
            self.refuse(record, RecordRefused(f"{place_of(record)}: {problem}"))

    def _open(self) -> Caller:
        if self._caller is None:
            config = self.config
            login = basic(config["connection.user"], config["connection.password"])
            self._caller = Caller(
                [config["http.api.url"]],
                Retries(config["max.retries"], config["retry.backoff.ms"], self._retried),
                login if config["auth.type"].lower() == BASIC else {},
                config["http.connect.timeout.ms"] / 1000,
                config["http.request.timeout.ms"] / 1000,
                tls_context(config, TLS_PREFIX),
            )
        return self._caller


def filled(pattern: str, record: SinkRecord, written: Any) -> str:
    """`${…}` replaced, each once, so that nothing in a key is taken for a name."""

    def value(match: re.Match[str]) -> str:
        match match[1]:
            case "key":
                return str(written(key_text(record)))
            case "topic":
                return str(written(record.topic))
            case "partition":
                return str(record.partition)
        return str(record.offset)

    return re.sub(r"\$\{(key|topic|partition|offset)\}", value, pattern)


def headers_of(text: str, separator: str) -> dict[str, str]:
    found = {}
    for each in filter(None, text.split(separator) if separator else [text]):
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"headers: {each} is no name:value")
        found[name.strip()] = value.strip()
    return found


def replacements(config: Mapping[str, Any]) -> list[tuple[re.Pattern[str], str]]:
    return replacements_of(config["regex.patterns"], config["regex.replacements"], config["regex.separator"])


def replacements_of(patterns: str, replacements: str, separator: str) -> list[tuple[re.Pattern[str], str]]:
    if not patterns:
        return []
    left, right = patterns.split(separator), replacements.split(separator)
    if len(left) != len(right):
        raise ValueError(f"regex.replacements has {len(right)} parts, and regex.patterns {len(left)}")
    try:
        # Java writes groups as $1.
        return [
            (re.compile(pattern), re.sub(r"\$(\d)", r"\\\1", replacement.replace("\\", "\\\\")))
            for pattern, replacement in zip(left, right, strict=True)
        ]
    except re.error as error:
        raise ValueError(f"regex.patterns: {error}") from None
