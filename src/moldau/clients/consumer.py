"""The consumer: a group member or a reader of chosen partitions, its poll loop, positions and commits."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from moldau.client.librdkafka import make_client
from moldau.clients import interceptors, properties, serializers
from moldau.clients.commits import CommitCallback, Committer
from moldau.clients.errors import (
    ClientError,
    CommitFailed,
    ConcurrentUse,
    DeserializationFailed,
    KafkaFailure,
    SettingError,
    Wakeup,
    failure,
)
from moldau.clients.lookups import partitions_for
from moldau.clients.offsets import OffsetLookup
from moldau.clients.reader import BEGINNING, END, NO_POSITION, Reader, start_without_group
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import (
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import Message

FOREVER: Final = float("inf")
LONG_SECONDS: Final = 3600.0
REVOKING_SECONDS: Final = 0.05


class Consumer:
    """Reads records from a Kafka cluster, as a member of a group (`subscribe`) or alone (`assign`).

    `properties` have Java's names; keywords are the same with `_` for `.`. `key.deserializer` and
    `value.deserializer` are names ("string", "json", "avro", …), classes, objects or functions; without one, keys and
    values are bytes.

    Iterate over it, or call `poll`; use it in a `with` block, or call `close()`, which commits (if that is automatic)
    and leaves the group at once. One thread uses it; only `wakeup()` may come from another: it ends the iteration,
    and `poll` raises Wakeup. With automatic commits a record counts as read when the next one is asked for, when the
    `with` block ends, or at `close()`; where the block ends by an exception, the record in hand (or what the last
    poll returned) does not count."""

    def __init__(self, properties_: Mapping[str, object] | None = None, /, **more: object) -> None:
        import confluent_kafka

        given = properties.merged(properties_, more)
        check(given)
        self._decode_key = serializers.decoder(given.get("key.deserializer", "bytes"), given, is_key=True)
        self._decode_value = serializers.decoder(given.get("value.deserializer", "bytes"), given, is_key=False)
        self._headed = serializers.headed(self._decode_key, self._decode_value)
        self._plain = {given.get(f"{part}.deserializer", "bytes") for part in ("key", "value")} == {"bytes"}
        self._chain = interceptors.made(given.get(interceptors.SETTING), given)
        self._monotonic = time.monotonic
        self._group = given.get("group.id")
        self._commits_itself = properties.flag(given, "enable.auto.commit", True) and self._group is not None
        self._call_seconds = properties.seconds(given, "default.api.timeout.ms", 60_000)
        settings = properties.librdkafka(given, properties.CONSUMER)
        settings["enable.auto.commit"] = self._commits_itself
        # librdkafka takes no consumer without a group; this one is never joined and nothing is committed to it.
        self._first = NO_POSITION if self._group else start_without_group(settings.get("auto.offset.reset"))
        settings.setdefault("group.id", "moldau-without-group")
        self._client: confluent_kafka.Consumer = make_client(
            confluent_kafka.Consumer, settings, properties.texts(given)
        )
        self._lookup = OffsetLookup(settings, self._call_seconds)
        self._reader = Reader(self._client, properties.whole(given, "max.poll.records", 500), self._monotonic)
        self._committer = Committer(self._commit_now)
        self._listener: RebalanceListener | None = None
        self._subscribed: list[str] = []
        self._assigned: list[TopicPartition] = []
        self._manual = False
        self._assigning = False
        self._in_hand = 0
        self._user = threading.Lock()
        self._user_thread = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._reader.handed_out = max(0, self._reader.handed_out - self._in_hand)
        try:
            self.close()
        except KafkaFailure as problem:
            if error is None:
                raise
            error.add_note(str(problem))

    # -- what is read --------------------------------------------------------------------------------------------

    def subscribe(
        self, topics: str | Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Joins the group for these topics, in place of earlier ones. A compiled pattern stands for all topics that
        match it, also those that are created later."""
        if self._group is None:
            raise SettingError("group.id", "is missing; subscribe needs a group, assign does not")
        if self._manual:
            raise ClientError(
                "this consumer has partitions by assign(): unsubscribe() first, the two exclude each other"
            )
        if isinstance(topics, re.Pattern):
            text = topics.pattern
            wanted = [text if text.startswith("^") else f"^{text}"]
        else:
            wanted = [topics] if isinstance(topics, str) else list(topics)
        if not wanted:
            self.unsubscribe()
            return
        with self._used():
            self._listener = listener
            self._subscribed = wanted
            self._client.subscribe(wanted, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Reads these partitions, without a group's help, in place of those before."""
        if self._subscribed:
            raise ClientError("this consumer is subscribed: unsubscribe() first, the two exclude each other")
        with self._used():
            self._store()
            wanted = [TopicPartition(*place) for place in partitions]
            kept = self._reader.positions([place for place in wanted if place in self._assigned])
            self._reader.forget(self._assigned)
            self._assigned = wanted
            self._manual = bool(wanted)
            self._client.assign([self._start(place, kept) for place in wanted])

    def _start(self, place: TopicPartition, kept: Mapping[TopicPartition, int]) -> confluent_kafka.TopicPartition:
        import confluent_kafka

        return confluent_kafka.TopicPartition(*place, kept.get(place, self._first))

    def unsubscribe(self) -> None:
        """Leaves the group, or gives up what was assigned."""
        with self._used():
            self._store()
            if self._subscribed:
                self._client.unsubscribe()
                self._until_revoked()
            elif self._manual:
                self._client.unassign()
            self._reader.forget(self._assigned)
            self._subscribed, self._assigned, self._manual = [], [], False

    def _until_revoked(self) -> None:
        """librdkafka takes partitions away in a later poll, and would take those that were assigned meanwhile too."""
        deadline = self._monotonic() + self._call_seconds
        while self._assigned and self._monotonic() < deadline:
            self._client.poll(REVOKING_SECONDS)

    def subscription(self) -> list[str]:
        return list(self._subscribed)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return set(self._assigned)

    def _on_assign(self, _client: object, found: list[confluent_kafka.TopicPartition]) -> None:
        """Where the listener seeks, the partition begins there."""
        partitions = [TopicPartition(each.topic, each.partition) for each in found]
        self._assigned = [*self._assigned, *(place for place in partitions if place not in self._assigned)]
        self._assigning = True
        try:
            if self._listener is not None:
                self._listener.on_partitions_assigned(partitions)
        finally:
            self._assigning = False
        starts = {place: self._reader.seeks.pop(place) for place in partitions if place in self._reader.seeks}
        if starts:
            for each in found:
                each.offset = starts.get(TopicPartition(each.topic, each.partition), each.offset)
            self._take(found)

    def _take(self, found: list[confluent_kafka.TopicPartition]) -> None:
        import confluent_kafka

        try:
            self._client.incremental_assign(found)
        except confluent_kafka.KafkaException:  # the group's assignors are eager
            self._client.assign(found)

    def _on_revoke(self, _client: object, found: list[confluent_kafka.TopicPartition]) -> None:
        self._gone(found, lost=False)

    def _on_lost(self, _client: object, found: list[confluent_kafka.TopicPartition]) -> None:
        self._gone(found, lost=True)

    def _gone(self, found: list[confluent_kafka.TopicPartition], *, lost: bool) -> None:
        partitions = [TopicPartition(each.topic, each.partition) for each in found]
        try:
            if not lost:
                self._store()
            if self._listener is not None:
                tell = self._listener.on_partitions_lost if lost else self._listener.on_partitions_revoked
                tell(partitions)
        finally:
            self._reader.forget(partitions)
            self._assigned = [place for place in self._assigned if place not in partitions]

    # -- reading -------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0) -> ConsumerRecords:
        """What is there, at most `max.poll.records`; waits for the first so many seconds. Possibly nothing.

        Joins the group, keeps the membership alive, and calls listeners and callbacks of commits.
        """
        with self._used():
            records = self._decoded(self._rest() or self._messages(timeout))
            self._reader.handed_out = self._in_hand = len(records)
            self._reader.rewind(self._reader.waiting())
            return self._intercepted(records)

    def _decoded(self, messages: list[Message]) -> list[ConsumerRecord]:
        """As far as they can be decoded; raises where the first cannot."""
        if self._plain:
            return [ConsumerRecord(message, message.key(), message.value()) for message in messages]
        records: list[ConsumerRecord] = []
        for message in messages:
            try:
                records.append(self._record(message))
            except DeserializationFailed:
                if not records:
                    self._reader.rewind(self._reader.waiting())
                    raise
                break
        return records

    def _intercepted(self, records: list[ConsumerRecord]) -> ConsumerRecords:
        found = ConsumerRecords(records)
        return interceptors.before_use(self._chain, found) if self._chain and records else found

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record after record, without end, until `wakeup()`."""
        return self.records()

    def records(self, idle_seconds: float | None = None) -> Iterator[ConsumerRecord]:
        """The same, but ends also when nothing has come for so long."""
        wait = LONG_SECONDS if idle_seconds is None else idle_seconds
        while True:
            try:
                with self._used():
                    self._in_hand = 0
                    self._reader.check_woken()
                    messages = self._rest() or self._messages(wait)
            except Wakeup:
                return
            if not messages and idle_seconds is not None:
                return
            yield from self._hand_out(messages)

    def _rest(self) -> list[Message]:
        """Fetched for an iteration that was left, and not handed out."""
        rest = self._reader.messages[self._reader.handed_out :]
        if rest:
            self._store()
            self._reader.messages, self._reader.handed_out = rest, 0
        return rest

    def _hand_out(self, messages: list[Message]) -> Iterator[ConsumerRecord]:
        """One by one. The list may shrink meanwhile: by a seek, a pause."""
        reader = self._reader
        if self._chain:
            yield from self._hand_out_intercepted(messages)
            return
        woken, plain = reader.woken.is_set, self._plain
        while reader.messages is messages and (place := reader.handed_out) < len(messages) and not woken():
            message = messages[place]
            record = ConsumerRecord(message, message.key(), message.value()) if plain else self._record(message)
            reader.handed_out = place + 1
            self._in_hand = 1
            yield record

    def _hand_out_intercepted(self, messages: list[Message]) -> Iterator[ConsumerRecord]:
        for message in messages:
            if self._reader.messages is not messages or message not in messages[self._reader.handed_out :]:
                continue
            if self._reader.woken.is_set():
                return
            record = self._record(message)
            self._reader.handed_out += 1
            self._in_hand = 1
            yield from self._intercepted([record])

    def _messages(self, seconds: float) -> list[Message]:
        self._store()
        self._committer.tell()
        self._in_hand = 0
        return self._reader.fetch(seconds)

    def _record(self, message: Message) -> ConsumerRecord:
        if self._plain:
            return ConsumerRecord(message, message.key(), message.value())
        topic, part = message.topic(), "the key"
        assert topic is not None
        try:
            raw_key, raw_value = message.key(), message.value()
            if self._headed and (headers := message.headers()):
                of_key, of_value = self._headed
                raw_key, raw_value = of_key(raw_key, headers), of_value(raw_value, headers)
            key = self._decode_key(topic, raw_key)
            part = "the value"
            return ConsumerRecord(message, key, self._decode_value(topic, raw_value))
        except Exception as error:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            raise DeserializationFailed(topic, partition, offset, part, error) from error

    def wakeup(self) -> None:
        """Ends the poll that is under way in another thread, or the next one."""
        self._reader.wakeup()

    # -- positions -----------------------------------------------------------------------------------------------

    def position(self, place: TopicPartition | tuple[str, int]) -> int:
        """The offset of the next record of this partition."""
        wanted = self._mine(place)
        with self._used():
            known = self._reader.positions([wanted]).get(wanted)
            if known is not None:
                return known
            sought = self._reader.seeks.get(wanted)
            stored = None if sought is not None or self._group is None else self.committed([wanted])[wanted]
            if stored is not None:
                return stored.offset
            if sought == END or (sought is None and self._lookup.starts_at_end):
                end = self._lookup.ends([wanted])[wanted]
                self._reader.seek(wanted, end)  # what is written from now on lies behind the position that is told
                return end
            return self._lookup.beginnings([wanted])[wanted]

    def positions(self) -> dict[TopicPartition, int]:
        """The next offsets of all partitions from which something was read: what `commit()` commits."""
        with self._used():
            return self._reader.positions(self._assigned)

    def seek(self, place: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """The next record of this partition will be the one at this offset, or the first after it."""
        wanted = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if wanted < 0:
            raise ValueError(f"{wanted} is no offset: they begin at 0")
        self._seek(place, wanted)

    def seek_to_beginning(self, *places: TopicPartition | tuple[str, int]) -> None:
        """To the first record kept; without partitions, of all that are assigned."""
        for place in places or tuple(self._assigned):
            self._seek(place, BEGINNING)

    def seek_to_end(self, *places: TopicPartition | tuple[str, int]) -> None:
        """Past the last record; without partitions, of all that are assigned."""
        for place in places or tuple(self._assigned):
            self._seek(place, END)

    def seek_to_time(self, timestamp: int, *places: TopicPartition | tuple[str, int]) -> None:
        """To the first record at or after this time (milliseconds since 1970), or to the end if there is none."""
        wanted = [TopicPartition(*place) for place in places] or list(self._assigned)
        for place, found in self.offsets_for_times(dict.fromkeys(wanted, timestamp)).items():
            self._seek(place, END if found is None else found.offset)

    def _seek(self, place: TopicPartition | tuple[str, int], offset: int) -> None:
        with self._used():
            self._reader.seek(self._mine(place), offset)

    def _mine(self, place: TopicPartition | tuple[str, int]) -> TopicPartition:
        wanted = TopicPartition(*place)
        if wanted not in self._assigned:
            raise ClientError(f"{wanted} is not assigned to this consumer: poll until it is, or assign() it")
        return wanted

    def pause(self, *places: TopicPartition | tuple[str, int]) -> None:
        """Polls return nothing of these partitions until `resume`; the membership goes on."""
        import confluent_kafka

        with self._used():
            wanted = [self._mine(place) for place in places]
            self._client.pause([confluent_kafka.TopicPartition(*place) for place in wanted])
            self._reader.rewind(wanted)
            self._reader.paused.update(wanted)

    def resume(self, *places: TopicPartition | tuple[str, int]) -> None:
        import confluent_kafka

        with self._used():
            wanted = [self._mine(place) for place in places]
            self._client.resume([confluent_kafka.TopicPartition(*place) for place in wanted])
            self._reader.paused.difference_update(wanted)

    # -- asking --------------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, whoever reads them."""
        return partitions_for(self._client, topic, self._call_seconds)

    def topics(self) -> list[str]:
        """The names of all topics that this client may see."""
        import confluent_kafka

        try:
            return sorted(self._client.list_topics(timeout=self._call_seconds).topics)
        except confluent_kafka.KafkaException as error:
            raise failure(error, "cannot list the topics") from None

    def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._lookup.beginnings(places)

    def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._lookup.ends(places)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after its time, or None."""
        return self._lookup.at_times(times)

    def lag(self) -> dict[TopicPartition, int]:
        """How many records each assigned partition has after the position."""
        positions = {place: self.position(place) for place in self._assigned}
        ends = self._lookup.ends(self._assigned)
        return {place: max(0, ends[place] - positions[place]) for place in self._assigned}

    def group_metadata(self) -> object:
        """For `send_offsets_to_transaction`."""
        return self._client.consumer_group_metadata()

    # -- committing ----------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commits what was read so far, or the given offsets (of the next record to be read), and waits until that is
        done; passing errors are tried again. Raises CommitFailed."""
        with self._used():
            self._committer.settle()
            chosen = self._chosen(offsets)
            self._committer.commit(chosen, self._call_seconds)
            interceptors.after_commit(self._chain, chosen)

    commit_sync = commit

    def commit_async(
        self,
        callback: CommitCallback | None = None,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
    ) -> None:
        """The same without waiting. `callback(offsets, error)` is called in a later poll, commit or close. One that
        fails
        for a passing reason is tried again unless a newer commit was asked for meanwhile."""
        with self._used():
            chosen = self._chosen(offsets)

            def tell(done: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaFailure | None) -> None:
                if error is None:
                    interceptors.after_commit(self._chain, done)
                if callback is not None:
                    callback(done, error)

            self._committer.submit(chosen, tell if callback is not None or self._chain else None)

    def committed(self, places: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions."""
        import confluent_kafka

        self._check_group("committed")
        wanted = [confluent_kafka.TopicPartition(*place) for place in places]
        try:
            found = self._client.committed(wanted, timeout=self._call_seconds)
        except confluent_kafka.KafkaException as error:
            raise failure(error, "cannot read the committed offsets") from None
        return {
            TopicPartition(each.topic, each.partition): (
                OffsetAndMetadata(each.offset, each.metadata or "") if each.offset >= 0 else None
            )
            for each in found
        }

    def _chosen(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._check_group("commit")
        given: Mapping[TopicPartition, int | OffsetAndMetadata]
        given = self._reader.positions(self._assigned) if offsets is None else offsets
        return {
            TopicPartition(*place): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
            for place, each in given.items()
        }

    def _check_group(self, what: str) -> None:
        if self._group is None:
            raise SettingError("group.id", f"is missing; {what} needs a group to keep offsets for")

    def _commit_now(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        import confluent_kafka

        if not offsets:
            return
        wanted = [confluent_kafka.TopicPartition(*place, each.offset, each.metadata) for place, each in offsets.items()]
        try:
            done = self._client.commit(offsets=wanted, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            raise failure(error, f"offsets of group {self._group} not committed", kind=CommitFailed) from None
        for each in done or ():
            if each.error is not None:
                what = f"offset {each.offset} of group {self._group} not committed"
                raise failure(each.error, what, topic=each.topic, partition=each.partition, kind=CommitFailed)

    def _store(self) -> None:
        """What was handed out becomes what the next automatic commit commits."""
        import confluent_kafka

        if not self._commits_itself or not self._assigned:
            return
        stored = [
            confluent_kafka.TopicPartition(*place, offset)
            for place, offset in self._reader.positions(self._assigned).items()
        ]
        if stored:
            with contextlib.suppress(confluent_kafka.KafkaException):  # no longer this member's
                self._client.store_offsets(offsets=stored)

    # -- ending --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commits if that is automatic, leaves the group at once, and closes all connections. A second call does
        nothing."""
        if self._closed:
            return
        with self._used():
            self._committer.settle()
            self._store()
            self._closed = True
            self._client.close()
            self._committer.tell()
            interceptors.close(self._chain)

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        """One thread at a time; calls from listeners and callbacks come from the thread that polls."""
        me = threading.get_ident()
        if self._user_thread == me:
            yield
            return
        if not self._user.acquire(blocking=False):
            raise ConcurrentUse("another thread uses this consumer: give each thread its own, or wakeup() this one")
        self._user_thread = me
        try:
            if self._closed:
                raise ClientError("this consumer is closed: make another one")
            yield
        finally:
            self._user_thread = 0
            self._user.release()


def check(given: Mapping[str, Any]) -> None:
    if "session.timeout.ms" in given and "heartbeat.interval.ms" in given:
        session, heartbeat = (
            properties.whole(given, name, 0) for name in ("session.timeout.ms", "heartbeat.interval.ms")
        )
        if heartbeat >= session:
            raise SettingError(
                "heartbeat.interval.ms",
                f"{heartbeat} is not below session.timeout.ms={session}; a third of it is usual",
            )
    if properties.whole(given, "max.poll.records", 500) < 1:
        raise SettingError("max.poll.records", "is below 1")
