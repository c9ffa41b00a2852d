"""v3: producing. One record, a stream of them on one connection, or a batch.

A stream is answered in its order, while it comes in, with one object for each record; the connection's status is 200
whatever becomes of them, as with Confluent's proxy: `error_code` says it for each. At most
`streaming.records.under.way` records wait for the cluster; then no more are read from the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from moldau.rest import errors, preparing
from moldau.rest.documents import Documents
from moldau.rest.formats import to_bytes
from moldau.rest.preparing import Prepared
from moldau.rest.producing import Outgoing, Sender, Sending, Stored
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import JSON, NUMBER, PREFIX, TEXT, Context, body_of
from moldau.web import WRITE, Api, Call
from moldau.web.application import to_json
from moldau.web.streams import Stream

PART: Final = {
    "type": ["object", "null"],
    "properties": {
        "type": {"type": "string", "enum": ["BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF"]},
        "subject": TEXT,
        "subject_name_strategy": {"type": "string", "enum": ["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"]},
        "schema_id": NUMBER,
        "schema_version": NUMBER,
        "schema": TEXT,
        "data": {},
    },
}
HEADER: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "value": {"type": ["string", "null"]}},
}
RECORD_FIELDS: Final = {
    "partition_id": {"type": ["integer", "null"]},
    "headers": {"type": "array", "items": HEADER},
    "key": PART,
    "value": PART,
    "timestamp": {"type": ["string", "null"]},
}
RECORD: Final = {"type": "object", "properties": RECORD_FIELDS}
RESULT: Final = {
    "type": "object",
    "required": ["error_code"],
    "properties": {"error_code": NUMBER, "message": TEXT, "partition_id": NUMBER, "offset": NUMBER, "timestamp": TEXT},
}
ENTRY: Final = {"type": "object", "required": ["id"], "properties": {"id": TEXT, **RECORD_FIELDS}}
BATCH: Final = {
    "type": "object",
    "required": ["entries"],
    "properties": {"entries": {"type": "array", "items": ENTRY, "minItems": 1}},
}
RESULTS: Final = {
    "type": "object",
    "required": ["successes", "failures"],
    "properties": {"successes": {"type": "array"}, "failures": {"type": "array"}},
}
SEPARATOR: Final = b"\r\n"
LONGEST_ID: Final = 80
TOO_LONG: Final = "Request Timeout: Streaming connection open for longer than allowed: Connection will be closed."
NOT_TAKEN: Final = (
    "Request Timeout: streaming.records.under.way records wait for their answers to be read: Connection will be closed."
)
T = TypeVar("T")


def add(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "consumes": JSON, "tag": "Records", "role": WRITE}

    @api.post(
        PREFIX + "/topics/{topic_name}/records",
        name="api.v3.produce.produce-to-topic",
        body=RECORD,
        answer=RESULT,
        errors=(40101, 404, 42206, 50003),
        **common,
    )
    async def produce(call: Call) -> object:
        """Produces one record, or a stream of them: JSON objects one after the other on one request"""
        call.check_content_type()
        if call.request.headers.get("content-length") == "0":
            raise errors.invalid_payload("Request body is empty. Data is required.")
        context = await Context.of(proxy, call)
        incoming = Incoming(proxy, Records(context, call.path["topic_name"]), call)
        return Stream(streamed(context, incoming), JSON[0], watches=False, cut=incoming.cut)

    @api.post(
        PREFIX + "/topics/{topic_name}/records:batch",
        name="api.v3.batch-produce.produce-to-topic",
        body=BATCH,
        answer=RESULTS,
        status=207,
        errors=(40101, 404, 42208, 50003),
        **common,
    )
    async def produce_batch(call: Call) -> object:
        """Produces several records, each of which may fail alone"""
        context = await Context.of(proxy, call)
        entries = read_entries(await body_of(call), proxy.settings.number("api.v3.produce.batch.maximum.entries"))
        group = await Records(context, call.path["topic_name"]).sent([entry for _, entry in entries])
        found = await group.answers()
        names = [name for name, _ in entries]
        successes = [
            {"id": name, **{key: each[key] for key in each if key != "error_code"}}
            for name, each in zip(names, found, strict=True)
            if each["error_code"] == 200
        ]
        failures = [{"id": name, **each} for name, each in zip(names, found, strict=True) if each["error_code"] != 200]
        return Response(to_json({"successes": successes, "failures": failures}), 207, media_type=JSON[0])


def read_entries(body: dict[str, Any], most: int) -> list[tuple[str, dict[str, Any]]]:
    given = body.get("entries")
    if not isinstance(given, list) or not given:
        raise errors.invalid_batch("Empty batch.")
    if len(given) > most:
        raise errors.invalid_batch("Too many entries in batch.")
    found = []
    for entry in given:
        name = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_ID:
            raise errors.invalid_batch("Batch entry identifier is not a valid string.")
        found.append((name, entry))
    if len({name for name, _ in found}) < len(found):
        raise errors.invalid_batch("Batch entry IDs are not distinct.")
    return found


# -- records ---------------------------------------------------------------------------------------------------------


class Group:
    """Records that came together, each on its way or refused."""

    def __init__(
        self, records: Records, prepared: Sequence[Prepared | errors.RestError], sending: Sending | None
    ) -> None:
        self._records = records
        self._prepared = prepared
        self._sending = sending

    def __len__(self) -> int:
        return len(self._prepared)

    async def answers(self) -> list[dict[str, Any]]:
        fates = iter(await self._sending.finished() if self._sending is not None else ())
        found = [
            as_error(each) if isinstance(each, errors.RestError) else self._records.answer(each, next(fates))
            for each in self._prepared
        ]
        good = sum(each["error_code"] == 200 for each in found)
        self._records.proxy.produced.value += good
        self._records.proxy.refused.value += len(found) - good
        return found


class Records:
    """What goes to one topic by one request."""

    def __init__(self, context: Context, topic: str) -> None:
        self.proxy = context.proxy
        self._context = context
        self._topic = topic
        self._null_is_nothing = context.proxy.settings.flag("null.request.body.always.publishes.empty.record")

    async def sent(self, given: Sequence[dict[str, Any] | errors.RestError]) -> Group:
        drafts = [self._read(each) for each in given]
        if any(isinstance(each, preparing.Draft) and each.needs_registry for each in drafts):
            prepared = await asyncio.to_thread(lambda: [self._encoded(each) for each in drafts])
        else:
            prepared = [self._encoded(each) for each in drafts]
        sender = await self._context.backend.sender()
        prepared = await self._placed(sender, prepared)
        outgoing: list[Outgoing] = [each.outgoing for each in prepared if isinstance(each, Prepared)]
        return Group(self, prepared, await sender.send(self._topic, outgoing) if outgoing else None)

    def _read(self, given: dict[str, Any] | errors.RestError) -> preparing.Draft | errors.RestError:
        if isinstance(given, errors.RestError):
            return given
        try:
            return preparing.read(self._topic, given)
        except errors.RestError as error:
            return error

    def _encoded(self, draft: preparing.Draft | errors.RestError) -> Prepared | errors.RestError:
        if isinstance(draft, errors.RestError):
            return draft
        try:
            return preparing.encode(draft, self.proxy.schemas, null_is_nothing=self._null_is_nothing)
        except errors.RestError as error:
            return error

    async def _placed(
        self, sender: Sender, prepared: Sequence[Prepared | errors.RestError]
    ) -> list[Prepared | errors.RestError]:
        if not any(isinstance(each, Prepared) for each in prepared):
            return list(prepared)
        try:
            count = await sender.partitions(self._topic)
        except errors.RestError as error:
            return [error if isinstance(each, Prepared) else each for each in prepared]
        return [
            errors.partition_not_found()
            if isinstance(each, Prepared) and (each.outgoing.partition or 0) >= count
            else each
            for each in prepared
        ]

    def answer(self, prepared: Prepared, fate: Any) -> dict[str, Any]:
        if not isinstance(fate, Stored):
            return as_error(
                errors.of_name(fate.name, fate.text, fate.retriable, f"record for {self._topic} not stored")
            )
        found = {
            "error_code": 200,
            "cluster_id": self._context.cluster_id,
            "topic_name": self._topic,
            "partition_id": fate.partition,
            "offset": fate.offset,
            "timestamp": preparing.iso(fate.timestamp),
        }
        if prepared.key is not None:
            found["key"] = prepared.key
        if prepared.value is not None:
            found["value"] = prepared.value
        return found


def as_error(error: errors.RestError) -> dict[str, Any]:
    return {"error_code": error.code, "message": error.message}


# -- a stream of them ------------------------------------------------------------------------------------------------


async def streamed(context: Context, incoming: Incoming) -> AsyncGenerator[bytes, None]:
    reading = asyncio.ensure_future(incoming.read())
    context.backend.busy += 1
    try:
        while (group := await incoming.groups.get()) is not None:
            found = await group.answers()
            yield b"".join(to_bytes(each) + SEPARATOR for each in found)
            incoming.answered(len(found))
    finally:
        context.backend.busy -= 1
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


class Incoming:
    """Reads the request and hands records on, as long as not too many wait for their answers to be taken.

    A client that sends everything before it reads an answer would wait for us as we do for it."""

    def __init__(self, proxy: Proxy, records: Records, call: Call) -> None:
        settings = proxy.settings
        self.groups: asyncio.Queue[Group | None] = asyncio.Queue()
        self.cut = asyncio.Event()
        """Its time was over: what its client does not take of the answers now, it never gets."""
        self._proxy = proxy
        self._records = records
        self._call = call
        self._most = settings.number("streaming.records.under.way")
        self._until = proxy.monotonic() + settings.seconds("streaming.connection.max.duration.ms")
        self._patience = settings.seconds("streaming.answers.timeout.ms")
        own = settings.number("api.v3.produce.request.size.limit.max.bytes")
        self._documents = Documents(min(own, call.largest_body) if own > 0 else call.largest_body)
        self._under_way = 0
        self._fewer = asyncio.Event()

    def answered(self, count: int) -> None:
        self._under_way -= count
        self._fewer.set()

    async def read(self) -> None:
        closing = asyncio.ensure_future(self._proxy.closing.wait())
        try:
            await self._read_until(closing)
        except ClientDisconnect:
            return
        except errors.RestError as error:
            self.groups.put_nowait(await self._records.sent([error]))
        finally:
            closing.cancel()
            self.groups.put_nowait(None)

    async def _read_until(self, closing: asyncio.Future[Any]) -> None:
        pieces = self._call.request.stream()
        seen = False
        while (piece := await self._unless_over(anext(pieces, None), closing)) is not None:
            found = [self._within_rates(each) for each in self._documents.feed(piece)]
            seen = seen or bool(found)
            await self._hand_on(found, closing)
            if self._documents.failed:
                return
        problem = self._documents.finish()
        if problem is not None:
            await self._hand_on([problem], closing)
        elif not seen:
            raise errors.invalid_payload("Request body is empty. Data is required.")

    async def _unless_over(
        self, wanted: Awaitable[T], closing: asyncio.Future[Any], patience: float = float("inf")
    ) -> T:
        """What is waited for, unless the proxy stops or the time is over before."""
        coming = asyncio.ensure_future(wanted)
        left = self._until - self._proxy.monotonic()
        try:
            await asyncio.wait({coming, closing}, timeout=min(left, patience), return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
        finally:
            if not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError, ClientDisconnect):
                    await coming
        if closing.done():
            raise errors.RestError(503, "the proxy is stopping")
        self.cut.set()
        raise errors.RestError(408, TOO_LONG if left <= patience else NOT_TAKEN)

    def _within_rates(self, found: dict[str, Any] | errors.RestError) -> dict[str, Any] | errors.RestError:
        if isinstance(found, errors.RestError) or self._proxy.admits_record(found):
            return found
        return errors.too_many("Too many records: the limit of api.v3.produce.rate.limit is reached.")

    async def _hand_on(self, found: Sequence[dict[str, Any] | errors.RestError], closing: asyncio.Future[Any]) -> None:
        if not found:
            return
        while self._under_way >= self._most:
            self._fewer.clear()
            await self._unless_over(self._fewer.wait(), closing, self._patience)
        self._under_way += len(found)
        self.groups.put_nowait(await self._records.sent(found))
