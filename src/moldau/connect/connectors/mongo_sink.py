"""Topics to collections of MongoDB, or of a server that speaks its protocol, under the settings of MongoDB's own sink.

**Ids.** `document.id.strategy` says what a document's `_id` is: its place in the topic (by default; text, an ObjectId
or a UUID made of topic, partition and offset, so that a repetition has the same), the record's key, or a part of key or
value. Java's names of classes are understood. A record with an `_id` in its value keeps it, unless
`document.id.strategy.overwrite.existing` is set.

**Exact.** A repetition writes the same document under the same `_id`. Where several records have one document (ids of
keys), it also carries its place, in the field that `offset.field` names, and an older record never replaces a newer
one, not even from a worker that was paused while another took over. A delete leaves nothing behind that could tell.
Writes are acknowledged by a majority and journalled, unless `connection.uri` says otherwise.

**Layouts.** Structs become sub-documents: embedded. With `references=field:collection:id` a sub-document, or each of a
list, is kept in another collection under its own field `id`, and the document has that id in its place: referenced.
Those that are referred to are written first.

A value is a struct, or text that is a JSON object (MongoDB's extended JSON): with the StringConverter documents of one
topic may have different fields; JsonConverter without schemas gives all of a batch the same fields, some of them null.

**Not here.** Handlers for change data capture, post processors other than the id's, business keys, time series: such
settings are refused.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.documents import place_of
from moldau.connect.connectors.mongo_documents import (
    BY_KEY,
    BY_PLACE,
    ID,
    document_of,
    encoded,
    id_strategy,
    not_known,
    references_of,
    referred,
    simple_name,
)
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of_any_case, refusals
from moldau.connect.interface import RecordRefused, SinkConnector, SinkRecord

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection
    from pymongo.errors import BulkWriteError

log = logging.getLogger(__name__)

STRATEGIES: Final = "com.mongodb.kafka.connect.sink.processor.id.strategy."
MODELS: Final = "com.mongodb.kafka.connect.sink.writemodel.strategy."
DEFAULT, REPLACE, UPDATE, UPDATE_TIMES, INSERT = (
    "DefaultWriteModelStrategy", "ReplaceOneDefaultStrategy", "UpdateOneDefaultStrategy",
    "UpdateOneTimestampsStrategy", "InsertOneDefaultStrategy",
)  # fmt: skip
KNOWN_MODELS: Final = (DEFAULT, REPLACE, UPDATE, UPDATE_TIMES, INSERT)
ID_ADDER: Final = "DocumentIdAdder"
REFUSED_SETTINGS: Final = {
    "change.data.capture.handler": ("",),
    "field.renamer.mapping": ("", "[]"),
    "field.renamer.regexp": ("", "[]"),
    "timeseries.timefield": ("",),
    "key.projection.type": ("", "none"),
    "value.projection.type": ("", "none"),
}
"""Settings that would change what is written, with the values that would not."""
OVERRIDE: Final = "topic.override."
BATCH: Final = 2000
DUPLICATE: Final = 11000
THE_RECORDS_FAULT: Final = frozenset({2, 9, 14, 52, 55, 57, 66, 121, 10334, 17280, 17419})
"""Codes of MongoDB: bad values and names of fields, a changed _id, failed validation, too large documents."""
PASSING: Final = frozenset({6, 7, 89, 91, 112, 189, 9001, 10107, 11600, 11602, 13435, 13436})
"""A primary that steps down, a shutdown, a write that met another one."""
MEETINGS: Final = 20
"""How often a write may meet those of others on its document."""


@dataclass(frozen=True, slots=True)
class Write:
    record: SinkRecord
    id: Any
    operation: Any
    guarded: bool


class MongoSink(SinkConnector):
    EXACT: ClassVar = (
        "a document's _id is its place in the topic, or its key, with the place in the document, which an older record "
        "never replaces"
    )
    CONFIG: ClassVar = ConfigDef(
        Key("connection.uri", default="mongodb://localhost:27017", doc="The servers, as MongoDB's drivers take them."),
        Key("database", default=REQUIRED, doc="The database.", importance="HIGH", check=not_empty),
        Key(
            "collection",
            default="",
            doc="The collection; by default it is named as the topic. topic.override.TOPIC.collection is one topic's.",
            importance="HIGH",
        ),
        Key(
            "document.id.strategy",
            default=f"{STRATEGIES}KafkaMetaDataStrategy",
            doc="What the _id is: KafkaMetaDataStrategy (topic#partition#offset), BsonOidStrategy or UuidStrategy "
            "(made of the same), FullKeyStrategy, PartialKeyStrategy, ProvidedInKeyStrategy, PartialValueStrategy or "
            "ProvidedInValueStrategy.",
            importance="HIGH",
        ),
        Key(
            "document.id.strategy.overwrite.existing",
            ConfigType.BOOLEAN,
            "false",
            "Whether an _id in the value is replaced.",
        ),
        Key(
            "document.id.strategy.uuid.format",
            default="string",
            doc="Of UuidStrategy: string or binary.",
            importance="LOW",
            check=one_of_any_case("string", "binary"),
        ),
        Key("document.id.strategy.partial.key.projection.type", default="", doc="allowlist or blocklist."),
        Key("document.id.strategy.partial.key.projection.list", ConfigType.LIST, "", "Fields of the key."),
        Key("document.id.strategy.partial.value.projection.type", default="", doc="allowlist or blocklist."),
        Key("document.id.strategy.partial.value.projection.list", ConfigType.LIST, "", "Fields of the value."),
        Key(
            "writemodel.strategy",
            default=f"{MODELS}{DEFAULT}",
            doc="ReplaceOneDefaultStrategy (the default): the document is replaced or made; UpdateOneDefaultStrategy: "
            "its fields are set; UpdateOneTimestampsStrategy: likewise, with _insertedTS and _modifiedTS; "
            "InsertOneDefaultStrategy: made, if it is not there; only with ids of places.",
        ),
        Key(
            "delete.on.null.values",
            ConfigType.BOOLEAN,
            "false",
            "Whether a tombstone deletes the document with its key; needs an id strategy of keys. Else it is refused.",
        ),
        Key(
            "offset.field",
            default="_kafka",
            doc="Where a document of a key carries its topic, partition and offset. Empty: nowhere; then a worker that "
            "was paused while another took over can put older content back.",
        ),
        Key(
            "references",
            ConfigType.LIST,
            "",
            "field:collection:id, several separated by commas: sub-documents that are kept in another collection.",
        ),
        Key(
            "max.batch.size",
            ConfigType.INT,
            "0",
            f"The most records that are written at a time; 0: {BATCH}.",
            check=at_least(0),
        ),
        Key("max.num.retries", ConfigType.INT, "3", "How often a write is tried again while no server answers."),
        Key("retries.defer.timeout", ConfigType.INT, "5000", "The pause before, in milliseconds."),
        Key("post.processor.chain", default=ID_ADDER, doc="Only DocumentIdAdder."),
        Key("bulk.write.ordered", ConfigType.BOOLEAN, "true", "Accepted: writes keep their order."),
    )

    OPEN: ClassVar = (OVERRIDE, *REFUSED_SETTINGS)

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        strategy, model = simple_name(config["document.id.strategy"]), simple_name(config["writemodel.strategy"])
        yield from refusals("document.id.strategy", lambda: id_strategy(config))
        if model not in KNOWN_MODELS:
            problem = f"writemodel.strategy: {model} is not known here; known: {', '.join(KNOWN_MODELS)}"
            yield "writemodel.strategy", problem
        if config["delete.on.null.values"] and strategy not in BY_KEY:
            needed = f"delete.on.null.values needs a document.id.strategy of keys: {', '.join(BY_KEY)}"
            yield "delete.on.null.values", needed
        if model == INSERT and strategy not in BY_PLACE:
            needed = f"{INSERT} needs a document.id.strategy of places: a repetition could not be told"
            yield "writemodel.strategy", needed
        if simple_name(config["post.processor.chain"]) != ID_ADDER:
            yield "post.processor.chain", f"post.processor.chain: only {ID_ADDER} is known here"
        yield from not_known(config, REFUSED_SETTINGS)
        yield from refusals("references", lambda: references_of(config["references"]))
        yield from refusals(OVERRIDE, lambda: overrides_of(config))

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        strategy = simple_name(config["document.id.strategy"])
        self._model = simple_name(config["writemodel.strategy"])
        self._collections = overrides_of(config)
        self._by_place = strategy in BY_PLACE
        self._id_of = id_strategy(config)
        self._references = references_of(config["references"])
        self._client: MongoClient[Any] | None = None
        self._sleep = time.sleep

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def write(self, records: Iterator[SinkRecord]) -> None:
        size = self.config["max.batch.size"] or BATCH
        while batch := list(islice(records, size)):
            # By collection, those that others refer to first.
            referred_to: dict[str, list[Write]] = {}
            documents: dict[str, list[Write]] = {}
            for record in batch:
                try:
                    self._add(record, documents, referred_to)
                except RecordRefused as problem:
                    self.refuse(record, problem)
            refused: set[int] = set()
            for name, writes in referred_to.items():
                refused |= {id(record) for record in self._bulk(name, writes)}
            for name, writes in documents.items():
                self._bulk(name, [each for each in writes if id(each.record) not in refused])

    # -- what is written ---------------------------------------------------------------------------------------------

    def _add(self, record: SinkRecord, documents: dict[str, list[Write]], referred_to: dict[str, list[Write]]) -> None:
        name = self._collections.get(record.topic) or self.config["collection"] or record.topic
        if record.value is None:
            documents.setdefault(name, []).append(self._deletion(record))
            return
        document = document_of(record)
        own_id = ID in document and not self.config["document.id.strategy.overwrite.existing"]
        if own_id and self._model == INSERT:
            raise RecordRefused(
                f"{place_of(record)}: the value has an _id, and a repetition of {INSERT} could not be told: set "
                f"document.id.strategy.overwrite.existing, or use {REPLACE}"
            )
        document_id = document[ID] if own_id else self._id_of(record, document)
        document, others = referred(record, document, self._references)
        guarded = own_id or not self._by_place
        write = self._write_of(record, document_id, document, self._model, guarded=guarded)
        for other in {(each.collection, str(each.id)): each for each in others}.values():
            fresh = self._write_of(record, other.id, other.document, REPLACE, guarded=True)
            referred_to.setdefault(other.collection, []).append(fresh)
        documents.setdefault(name, []).append(write)

    def _deletion(self, record: SinkRecord) -> Write:
        from pymongo import DeleteOne

        if not self.config["delete.on.null.values"]:
            raise RecordRefused(f"{place_of(record)} is a tombstone, and delete.on.null.values is false")
        document_id = self._id_of(record, {})
        guarded = bool(self.config["offset.field"])
        return Write(record, document_id, DeleteOne(self._filter(record, document_id, guarded=guarded)), guarded)

    def _write_of(
        self, record: SinkRecord, document_id: Any, document: Mapping[str, Any], model: str, *, guarded: bool
    ) -> Write:
        from pymongo import ReplaceOne, UpdateOne

        guarded = guarded and bool(self.config["offset.field"])
        whole = {ID: document_id, **{name: value for name, value in document.items() if name != ID}}
        if guarded:
            place = {"topic": record.source.topic, "partition": record.partition, "offset": record.order}
            whole[self.config["offset.field"]] = place
        content = encoded(record, whole)
        chosen = self._filter(record, document_id, guarded=guarded)
        if model in (DEFAULT, REPLACE) or len(whole) == 1:
            return Write(record, document_id, ReplaceOne(chosen, content, upsert=True), guarded)
        fields = {name: value for name, value in whole.items() if name != ID}
        if any("." in name or name.startswith("$") for name in fields):
            raise RecordRefused(f"{place_of(record)}: a field with a dot or a dollar sign in its name cannot be set")
        if model == INSERT:
            change: dict[str, Any] = {"$setOnInsert": encoded(record, fields)}
        else:
            now = dt.datetime.now(dt.UTC)
            times = model == UPDATE_TIMES
            change = {"$set": encoded(record, {**fields, "_modifiedTS": now} if times else fields)}
            if times:
                change["$setOnInsert"] = {"_insertedTS": now}
        return Write(record, document_id, UpdateOne(chosen, change, upsert=True), guarded)

    def _filter(self, record: SinkRecord, document_id: Any, *, guarded: bool) -> dict[str, Any]:
        """The document, unless it has come as far as this record or farther."""
        if not guarded:
            return {ID: document_id}
        field = self.config["offset.field"]
        as_far = {
            f"{field}.topic": record.source.topic,
            f"{field}.partition": record.partition,
            f"{field}.offset": {"$gte": record.order},
        }
        return {ID: document_id, "$nor": [as_far]}

    # -- writing -----------------------------------------------------------------------------------------------------

    def _open(self) -> MongoClient[Any]:
        if self._client is None:
            from pymongo import MongoClient

            client: MongoClient[Any] = MongoClient(
                self.config["connection.uri"], appname="moldau-connect", uuidRepresentation="standard", tz_aware=True
            )
            if not client.write_concern.acknowledged:
                client.close()
                raise ValueError("connection.uri: writes have to be acknowledged; w=0 loses them")
            self._client = client
        return self._client

    def _collection(self, name: str) -> Collection[Any]:
        from pymongo import WriteConcern

        client = self._open()
        concern = client.write_concern if client.write_concern.document else WriteConcern(w="majority", j=True)
        return client[self.config["database"]].get_collection(name, write_concern=concern)

    def _bulk(self, name: str, writes: list[Write]) -> list[SinkRecord]:
        """In their order; returns when they are durable, with the records of those that were refused."""
        from pymongo.errors import AutoReconnect, BulkWriteError

        collection = self._collection(name)
        refused: list[SinkRecord] = []
        away = meetings = 0
        while writes:
            try:
                collection.bulk_write([each.operation for each in writes], ordered=True)
                break
            except BulkWriteError as error:
                rest = self._rest(collection, writes, error, refused)
                meetings = meetings + 1 if rest and rest[0] is writes[failed_at(error)] else 0
                if meetings > MEETINGS:
                    raise
                writes = rest
            except AutoReconnect as error:
                if away >= self.config["max.num.retries"]:
                    raise
                away += 1
                log.info("%s: %s; again in %d ms", name, error, self.config["retries.defer.timeout"])
                self._sleep(self.config["retries.defer.timeout"] / 1000)
        return refused

    def _rest(
        self, collection: Collection[Any], writes: list[Write], error: BulkWriteError, refused: list[SinkRecord]
    ) -> list[Write]:
        """What is still to be written behind the write that failed, with it where it should be tried again."""
        problems = (error.details or {}).get("writeErrors") or []
        if not problems:
            raise error
        problem, at = problems[0], failed_at(error)
        code, told = problem.get("code"), str(problem.get("errmsg", ""))
        if code == DUPLICATE and is_about_id(problem):
            # It is there: because it has come as far, or because somebody else has just made it.
            return self._unwritten(collection, writes[at:])
        if code in PASSING:
            return writes[at:]
        if code in THE_RECORDS_FAULT or code == DUPLICATE:
            record = writes[at].record
            self.refuse(record, RecordRefused(f"{place_of(record)}: {collection.name} refuses it: {told}"))
            refused.append(record)
            return writes[at + 1 :]
        raise error

    def _unwritten(self, collection: Collection[Any], writes: list[Write]) -> list[Write]:
        """Without those whose documents have come as far or farther."""
        field = self.config["offset.field"]
        guarded = [each for each in writes if each.guarded]
        if not guarded:
            return writes
        found = collection.find({ID: {"$in": [each.id for each in guarded]}}, {field: 1})
        places = {name_of(each[ID]): each.get(field) for each in found}
        return [
            each for each in writes if not (each.guarded and has_come_to(places.get(name_of(each.id)), each.record))
        ]


def failed_at(error: BulkWriteError) -> int:
    return int((error.details or {})["writeErrors"][0]["index"])


def is_about_id(problem: Mapping[str, Any]) -> bool:
    """Of a duplicate key: whether it is the _id's, and not that of another unique index."""
    pattern = problem.get("keyPattern")
    if pattern is not None:
        return list(pattern) == [ID]
    return f"index: {ID}" in str(problem.get("errmsg", "")) or f".{ID}" in str(problem.get("errmsg", ""))


def has_come_to(place: Any, record: SinkRecord) -> bool:
    if not isinstance(place, Mapping):
        return False
    of_this = place.get("topic") == record.source.topic and place.get("partition") == record.partition
    return of_this and int(place.get("offset", -1)) >= record.order


def name_of(document_id: Any) -> bytes:
    """Of any kind: sub-documents and lists cannot be keys of a dict."""
    import bson

    return bytes(bson.encode({ID: document_id}))


def overrides_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Collections of topics."""
    found = {}
    for name, value in config.items():
        if not name.startswith(OVERRIDE):
            continue
        topic, _, setting = name.removeprefix(OVERRIDE).rpartition(".")
        if setting != "collection" or not topic:
            raise ConfigError(name, str(value), "", f"{name}: only {OVERRIDE}TOPIC.collection is known here")
        found[topic] = str(value)
    return found
