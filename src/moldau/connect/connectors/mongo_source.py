"""Changes of collections of MongoDB to topics, by its change streams, under the settings of MongoDB's own source.

It needs a server that has change streams: a replica set or a sharded cluster of MongoDB, not a standalone server.

An event is a record of `<topic.prefix>.<database>.<collection>`: its key the event's resume token, its value the event
as JSON text, or the document alone with `publish.full.document.only`. The position is the token behind the last event
and how many events the batch had, so a batch that is read again has the same events, and each is sent once. What
`updateLookup` shows of a document is what it is at that moment.

With `startup.mode=copy_existing` the documents that are there come first, in the order of their `_id`, which have to be
of one type, as inserts; changes made while they are copied come behind them, also those that the copy has shown.
A position that the server no longer has (its log was too short) makes the task FAILED with that reason.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigType
from moldau.connect.connectors.mongo_documents import ID, not_known, simple_name
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of, one_of_any_case, refusals
from moldau.connect.interface import Position, SourceConnector, SourceRecord, Stream

if TYPE_CHECKING:
    from bson.json_util import JSONOptions
    from pymongo import MongoClient
    from pymongo.change_stream import ChangeStream
    from pymongo.collection import Collection
    from pymongo.database import Database

TOKEN, EVENTS, TIME, COPIED = "_id", "events", "time", "copied"
LATEST, COPY, TIMESTAMP = "latest", "copy_existing", "timestamp"
START: Final = "startup.mode.timestamp.start.at.operation.time"
LOOKUP: Final = "updateLookup"
INSERT, DELETE, INVALIDATE = "insert", "delete", "invalidate"
IDLE_SECONDS: Final = 300.0
"""So long nothing may happen before the position moves all the same: the server forgets old ones."""
FORMATTERS: Final = ("DefaultJson", "ExtendedJson", "SimplifiedJson")
REFUSED_SETTINGS: Final = {
    "topic.mapping": ("",),
    "topic.namespace.map": ("",),
    "topic.mapper": ("", "com.mongodb.kafka.connect.source.topic.mapping.DefaultTopicMapper"),
    "output.format.key": ("", "json"),
    "output.format.value": ("", "json"),
}
"""Settings that would change what is sent, with the values that would not."""


class MongoSource(SourceConnector):
    CONFIG: ClassVar = ConfigDef(
        Key("connection.uri", default="mongodb://localhost:27017", doc="The servers, as MongoDB's drivers take them."),
        Key("database", default=REQUIRED, doc="The database.", importance="HIGH", check=not_empty),
        Key("collection", default="", doc="The collection; all of the database without.", importance="HIGH"),
        Key("topic.prefix", default="", doc="Before the names of database and collection.", importance="HIGH"),
        Key("topic.suffix", default="", doc="Behind them."),
        Key("topic.separator", default=".", doc="Between all of them."),
        Key("pipeline", default="[]", doc="Stages of an aggregation over the events, as JSON."),
        Key(
            "publish.full.document.only",
            ConfigType.BOOLEAN,
            "false",
            "Whether the value is the document and not the event; updates then have it looked up.",
        ),
        Key(
            "publish.full.document.only.tombstone.on.delete",
            ConfigType.BOOLEAN,
            "false",
            "Whether a delete then is a record without a value, with the document's key; else it is left out.",
        ),
        Key(
            "change.stream.full.document",
            default="",
            doc="Of updates: default, updateLookup, whenAvailable or required.",
            check=one_of("", "default", LOOKUP, "whenAvailable", "required"),
        ),
        Key(
            "startup.mode",
            default=LATEST,
            doc="Where a new connector begins: latest, copy_existing or timestamp.",
            check=one_of_any_case(LATEST, COPY, TIMESTAMP),
        ),
        Key(
            "startup.mode.timestamp.start.at.operation.time",
            default="",
            doc="For timestamp: seconds since 1970, or ISO 8601.",
        ),
        Key("poll.max.batch.size", ConfigType.INT, "10000", "The most events of a batch.", "LOW", at_least(1)),
        Key("poll.await.time.ms", ConfigType.LONG, "500", "How long it waits for events.", "LOW", at_least(1)),
        Key(
            "output.json.formatter",
            default="DefaultJson",
            doc="DefaultJson (MongoDB's old extended JSON), ExtendedJson (its canonical form) or SimplifiedJson "
            "(its relaxed form).",
        ),
    )

    OPEN: ClassVar = tuple(REFUSED_SETTINGS)

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        yield from not_known(config, REFUSED_SETTINGS)
        if simple_name(config["output.json.formatter"]) not in FORMATTERS:
            yield "output.json.formatter", f"output.json.formatter: known are {', '.join(FORMATTERS)}"
        yield from refusals("pipeline", lambda: pipeline_of(config["pipeline"]))
        yield from refusals(START, lambda: seconds_of(config[START]))
        if config["startup.mode"].lower() == TIMESTAMP and not config[START]:
            yield START, f"startup.mode=timestamp needs {START}"

    def __init__(self, config: Mapping[str, Any], monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self._pipeline = pipeline_of(config["pipeline"])
        self._mode = config["startup.mode"].lower()
        self._start = seconds_of(config[START])
        self._monotonic = monotonic
        self._client: MongoClient[Any] | None = None
        self._watched: ChangeStream[Any] | None = None
        self._watched_from: Position | None = None
        self._moved_at = monotonic()

    def close(self) -> None:
        self._let_go()
        if self._client is not None:
            self._client.close()

    def _let_go(self) -> None:
        if self._watched is not None:
            self._watched.close()
        self._watched = None

    @property
    def _database(self) -> Database[Any]:
        from pymongo import MongoClient

        if self._client is None:
            self._client = MongoClient(
                self.config["connection.uri"], appname="moldau-connect", uuidRepresentation="standard", tz_aware=True
            )
        return self._client[self.config["database"]]

    @property
    def _place(self) -> Database[Any] | Collection[Any]:
        """What is watched."""
        name = self.config["collection"]
        return self._database[name] if name else self._database

    # -- streams -----------------------------------------------------------------------------------------------------

    def streams(self) -> Sequence[Stream]:
        database, collection = self.config["database"], self.config["collection"]
        self._database.command("ping")
        name = f"{plain_uri(self.config['connection.uri'])}/{database}{f'.{collection}' if collection else ''}"
        return [Stream({"ns": name}, self._topic(database, collection), "string", "string")]

    def _topic(self, database: str, collection: str) -> str:
        parts = (self.config["topic.prefix"], database, collection, self.config["topic.suffix"])
        return str(self.config["topic.separator"].join(part for part in parts if part))

    def validate_position(self, partition: Mapping[str, Any], position: Mapping[str, Any] | None) -> None:
        if set(partition) != {"ns"}:
            raise ValueError("Partition objects should contain the key 'ns'")
        if position is not None and not {TOKEN, TIME} & set(position):
            raise ValueError(f"Offset objects should either be null or contain the key '{TOKEN}' or '{TIME}'")

    # -- positions ---------------------------------------------------------------------------------------------------

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        if position is None:
            begin = {TIME: [self._start, 0] if self._mode == TIMESTAMP else self._now()}
            return {**begin, COPIED: None} if self._mode == COPY else begin
        if COPIED in position:
            return self._next_copied(position)
        return self._next_events(position)

    def _now(self) -> list[int]:
        """The time behind everything that has happened, as far as the server tells it: some only to the second."""
        found = self._database.command("ping")
        if (last := found.get("operationTime")) is not None:
            return [last.time, last.inc + 1]
        return [int(self._database.command("isMaster")["localTime"].timestamp()), 0]

    def _next_copied(self, position: Position) -> Position:
        """A stretch of documents; behind the last the changes follow."""
        from bson import json_util

        last: Any = None
        if position[COPIED] is None:
            self._check_ids()
        for name, document_id in self._ids_behind(position[COPIED]):
            last = [name, json_util.dumps(document_id, json_options=canonical())]
        if last is None:
            return {TIME: position[TIME]}
        return {TIME: position[TIME], COPIED: last}

    def _check_ids(self) -> None:
        """The server compares values of one type alone, but orders all of them."""
        for collection in self._collections():
            ends = [list(collection.find({}, {ID: 1}).sort(ID, way).limit(1)) for way in (1, -1)]
            kinds = {type(each[0][ID]).__name__ for each in ends if each}
            if len(kinds) > 1:
                raise ValueError(
                    f"{collection.name} has _ids of the types {', '.join(sorted(kinds))}, and cannot be copied: use "
                    "another startup.mode"
                )

    def _collections(self) -> list[Collection[Any]]:
        chosen = self.config["collection"]
        names = [chosen] if chosen else sorted(self._database.list_collection_names())
        return [self._database[name] for name in names if not name.startswith("system.")]

    def _ids_behind(self, copied: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
        left = self.config["poll.max.batch.size"]
        for collection in self._collections():
            if copied is not None and collection.name < copied[0]:
                continue
            found = collection.find(range_of(collection.name, copied, None), {ID: 1}).sort(ID, 1).limit(left)
            for document in found:
                left -= 1
                yield collection.name, document[ID]
            if not left:
                return

    def _next_events(self, position: Position) -> Position:
        events = 0
        if self._watched is None or self._watched_from != position:
            self._let_go()
            self._watched = self._watch(position)
        token = None
        while events < self.config["poll.max.batch.size"] and (event := self._watched.try_next()) is not None:
            events, token = events + 1, event[ID]
            if event["operationType"] == INVALIDATE:
                break
        now = self._monotonic()
        if events:
            self._moved_at = now
            self._watched_from = {TOKEN: token, EVENTS: events}
            return self._watched_from
        self._watched_from = position
        idle = self._watched.resume_token
        if idle is None or idle == position.get(TOKEN) or now - self._moved_at < IDLE_SECONDS:
            return position
        self._moved_at = now
        self._watched_from = {TOKEN: dict(idle), EVENTS: 0}
        return self._watched_from

    def _watch(self, position: Position) -> ChangeStream[Any]:
        from bson import Timestamp

        token = position.get(TOKEN)
        begin: dict[str, Any] = (
            {"start_at_operation_time": Timestamp(*position[TIME])} if token is None else {"start_after": token}
        )
        full = self.config["change.stream.full.document"]
        if not full and self.config["publish.full.document.only"]:
            full = LOOKUP
        return self._place.watch(
            self._pipeline,
            full_document=full if full not in ("", "default") else None,
            max_await_time_ms=self.config["poll.await.time.ms"],
            batch_size=1000,
            **begin,
        )

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[SourceRecord]:
        if begin is None:
            return iter(())
        if COPIED in begin:
            return self._copied(begin, end) if COPIED in end else iter(())
        return self._events(begin, end)

    def _copied(self, begin: Position, end: Position) -> Iterator[SourceRecord]:
        database = self.config["database"]
        for collection in self._collections():
            if begin[COPIED] is not None and collection.name < begin[COPIED][0]:
                continue
            if collection.name > end[COPIED][0]:
                return
            for document in collection.find(range_of(collection.name, begin[COPIED], end[COPIED])).sort(ID, 1):
                event = {
                    ID: {ID: document[ID], "copyingData": True},
                    "operationType": INSERT,
                    "ns": {"db": database, "coll": collection.name},
                    "documentKey": {ID: document[ID]},
                    "fullDocument": document,
                }
                yield from self._records(event)

    def _events(self, begin: Position, end: Position) -> Iterator[SourceRecord]:
        """Up to the token, not as many as there were: what a document is looked up as decides what a pipeline lets
        pass, and it may have changed since."""
        left = end[EVENTS]
        if not left:
            return
        with self._watch(begin) as watched:
            while left:
                event = watched.try_next()
                came_to = watched.resume_token if event is None else event[ID]
                if is_past(came_to, end[TOKEN]):
                    return
                if event is not None:
                    left -= not are_ordered(came_to, end[TOKEN])
                    yield from self._records(event)
                if came_to == end[TOKEN]:
                    return

    def _records(self, event: Mapping[str, Any]) -> Iterator[SourceRecord]:
        names = event.get("ns") or {}
        topic = self._topic(names.get("db", self.config["database"]), names.get("coll", self.config["collection"]))
        happened = event.get("clusterTime")
        millis = None if happened is None else happened.time * 1000
        key = {ID: event[ID]}
        if not self.config["publish.full.document.only"]:
            yield SourceRecord(self._text(event), self._text(key), millis, topic=topic)
            return
        tombstones = self.config["publish.full.document.only.tombstone.on.delete"]
        if tombstones and "documentKey" in event:
            key = event["documentKey"]
        document = event.get("fullDocument")
        if document is not None:
            yield SourceRecord(self._text(document), self._text(key), millis, topic=topic)
        elif tombstones and event["operationType"] == DELETE:
            yield SourceRecord(None, self._text(key), millis, topic=topic)

    def _text(self, content: Any) -> str:
        from bson import json_util

        options = {
            "DefaultJson": json_util.LEGACY_JSON_OPTIONS,
            "ExtendedJson": canonical(),
            "SimplifiedJson": json_util.RELAXED_JSON_OPTIONS,
        }[simple_name(self.config["output.json.formatter"])]
        return json_util.dumps(content, json_options=options)


def canonical() -> JSONOptions:
    from bson import json_util

    return json_util.CANONICAL_JSON_OPTIONS


def are_ordered(*tokens: Mapping[str, Any] | None) -> bool:
    """MongoDB's are: digits that begin with the time. With a server that has others the number of events counts."""
    return all(token is not None and isinstance(token.get("_data"), str) for token in tokens)


def is_past(token: Mapping[str, Any] | None, end: Mapping[str, Any]) -> bool:
    return token is not None and are_ordered(token, end) and token["_data"] > end["_data"]


def range_of(name: str, begin: Sequence[str] | None, end: Sequence[str] | None) -> dict[str, Any]:
    """Of the _ids of a collection: behind one place, up to another."""
    from bson import json_util

    found: dict[str, Any] = {}
    if begin is not None and begin[0] == name:
        found["$gt"] = json_util.loads(begin[1], json_options=canonical())
    if end is not None and end[0] == name:
        found["$lte"] = json_util.loads(end[1], json_options=canonical())
    return {ID: found} if found else {}


def pipeline_of(text: str) -> list[Any]:
    from bson.errors import BSONError
    from bson.json_util import loads

    try:
        found = loads(text or "[]")
    except (ValueError, TypeError, BSONError) as error:
        raise ValueError(f"pipeline is no JSON: {error}") from None
    if not isinstance(found, list):
        raise ValueError("pipeline has to be a JSON list of stages")
    return found


def seconds_of(text: str) -> int | None:
    import datetime as dt

    if not text:
        return None
    if text.isdigit():
        return int(text)
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"startup.mode.timestamp.start.at.operation.time: {text} is neither seconds nor ISO 8601"
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp())


def plain_uri(uri: str) -> str:
    """Without a login and options."""
    found = re.match(r"(mongodb(?:\+srv)?://)(?:[^@/]*@)?([^/?]*)", uri)
    return "".join(found.groups()) if found else uri
