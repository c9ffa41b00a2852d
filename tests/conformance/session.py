"""Plays one scenario at one version against one broker and keeps the normalised answers."""

import contextlib
import secrets
import string
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from tests.conformance import batches
from tests.conformance.batches import Batch
from tests.conformance.messages import api, decode_response, encode_request, is_flexible, walk
from tests.conformance.normalise import Normaliser
from tests.conformance.wire_client import ANSWER_SECONDS, NoAnswer, WireClient, frame, request_header
from tests.support.waiting import wait_until

Plain = Any
Fields = Mapping[str, Plain]
SETTLE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.005
_HOUR_MS: Final = 3_600_000
# The answer to ApiVersions keeps the old header so that clients of any age can read it.
_OLD_ANSWER_HEADER: Final = frozenset({"api_versions"})


class Topic(NamedTuple):
    name: str
    id: str | None


def new_tag() -> str:
    """Marks the topics of one run; always of the same length, so that sizes stay comparable."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(6))


@dataclass(slots=True)
class Session:
    scenario: str
    version: int
    client: WireClient
    tag: str
    normaliser: Normaliser
    time_base: int
    restart_broker: Callable[[], None]
    answers: dict[str, Plain] = field(default_factory=dict)

    @classmethod
    def start(
        cls, scenario: str, version: int, client: WireClient, tag: str, restart_broker: Callable[[], None]
    ) -> "Session":
        now = int(time.time() * 1000)
        time_base = now - _HOUR_MS
        normaliser = Normaliser(tag, f"{scenario}-{version}-{tag}-", time_base, now)
        return cls(scenario, version, client, tag, normaliser, time_base, restart_broker)

    # -- names and times -------------------------------------------------------------------------------------------

    def topic_name(self, label: str) -> str:
        return self.normaliser.prefix + label

    def at(self, seconds: float) -> int:
        """A time of this session, an hour ago, that shows as T+… in recordings."""
        return self.time_base + int(seconds * 1000)

    def batch(self, *values: str, at: float = 0, key: str | None = "k", **changes: Any) -> Batch:
        return Batch(batches.records(*values, key=key), self.at(at)).but(**changes)

    # -- recorded steps --------------------------------------------------------------------------------------------

    def ask(
        self,
        step: str,
        name: str,
        content: Fields,
        *,
        version: int | None = None,
        only_own: bool = False,
        ordered: bool = False,
        damage: Callable[[bytes], bytes] | None = None,
        seconds: float = ANSWER_SECONDS,
        edit: Callable[[Plain], Plain] = lambda answer: answer,
    ) -> Plain:
        """Send a request, record the normalised answer under the step's name and return the plain one."""
        chosen = self.version if version is None else version
        body = encode_request(name, chosen, content)
        answer = self._exchange(name, chosen, body if damage is None else damage(body), seconds=seconds)
        self.note(step, self._comparable(edit(answer), only_own, ordered))
        return answer

    def ask_until(self, step: str, name: str, content: Fields, is_settled: Callable[[Plain], bool]) -> None:
        """Send a request again until the broker has heard of what it must know; record that answer."""
        answers: list[Plain] = []

        def settled() -> bool:
            answers.append(self.send(name, content, self.version))
            return is_settled(answers[-1])

        self.until(settled, f"the answer {step!r}")
        self.note(step, self._comparable(answers[-1]))

    def ask_bytes(self, step: str, name: str, version: int, body: bytes, *, answer_version: int | None = None) -> None:
        """Send a body that no schema made, under a version that may not exist."""
        answer = self._exchange(name, version, body, answer_version=answer_version)
        self.note(step, self._comparable(answer))

    def ask_raw(self, step: str, raw: bytes, seconds: float = 5.0) -> None:
        """Send bytes that need not be a frame; record what happens to the connection or whose answer came."""
        self.client.close()
        answer = self.client.exchange(raw, seconds)
        self.note(
            step, answer.value if isinstance(answer, NoAnswer) else f"answer {struct.unpack_from('>i', answer)[0]}"
        )
        self.client.close()

    def tell(self, name: str, content: Fields) -> None:
        """Send a request that gets no answer."""
        self._send(name, self.version, encode_request(name, self.version, content))

    def offer(self, step: str, topic: Topic, *records: Batch | bytes) -> None:
        """Produce, record the answer and, if it was accepted, what is stored, with offsets counted from the log's end.

        So an answer does not depend on what the broker made of the steps before.
        """
        end = self.end_offset(topic)

        def from_the_end(answer: Plain) -> Plain:
            for mapping in walk(answer):
                if mapping.get("base_offset", -1) >= 0:
                    mapping["base_offset"] -= end
            return answer

        answer = self.ask(step, "produce", self.produce(topic, *records), edit=from_the_end)
        outcome = None if isinstance(answer, NoAnswer) else answer["responses"][0]["partition_responses"][0]
        if outcome is not None and outcome["error_code"] == "NONE":
            found = self.send("fetch", self.fetch(topic, end))["responses"][0]["partitions"][0]["records"]
            stored = [dict(batch) for batch in batches.describe(found, self.normaliser.sent_crcs)]
            self.note(f"{step}: stored", self.normaliser.answer(from_the_end(stored), ordered=True))

    def end_offset(self, topic: Topic) -> int:
        wanted = {"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
        answer = self.send("list_offsets", {"replica_id": -1, "topics": [wanted]})
        return int(answer["topics"][0]["partitions"][0]["offset"])

    @contextlib.contextmanager
    def waiting_for(
        self,
        step: str,
        name: str,
        content: Fields,
        *,
        version: int | None = None,
        edit: Callable[[Plain], Plain] = lambda answer: answer,
    ) -> Iterator[None]:
        """Record the answer to a request that is under way, on a connection of its own, while the block runs."""
        chosen = self.version if version is None else version
        other = replace(self, client=self.client.another())
        correlation = other._send(name, chosen, encode_request(name, chosen, content))
        try:
            yield
            answer = other._receive(name, chosen, correlation, ANSWER_SECONDS)
            self.note(step, self._comparable(edit(answer)))
        finally:
            other.client.close()

    def note(self, step: str, value: Plain) -> None:
        if step in self.answers:
            raise ValueError(f"two steps of {self.scenario} are called {step!r}")
        self.answers[step] = value

    # -- set-up, not recorded --------------------------------------------------------------------------------------

    def send(self, name: str, content: Fields, version: int | None = None) -> Plain:
        chosen = api(name).highest if version is None else version
        answer = self._exchange(name, chosen, encode_request(name, chosen, content))
        if isinstance(answer, NoAnswer):
            raise AssertionError(f"{name} v{chosen} in the set-up of {self.scenario}: {answer.value}")
        return answer

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for what a broker does after it has answered."""
        wait_until(done, f"{what} in the set-up of {self.scenario}", SETTLE_SECONDS, _POLL_SECONDS)

    def let_the_clock_tick(self) -> None:
        """So that what the broker stamps next is later than what it stamped before."""
        begun = time.time()
        self.until(lambda: time.time() > begun + 0.002, "a tick of the clock")

    def restart(self, *topics: tuple[Topic, int]) -> None:
        """A clean stop and a start of the broker; returns when it serves these topics with so many partitions."""
        self.client.close()
        self.restart_broker()
        for topic, partitions in topics:
            self.until(lambda: self.is_served(topic.name, partitions), f"a leader for {topic.name}")  # noqa: B023

    def create(self, label: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Topic:
        name = self.topic_name(label)
        configured = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configured}
        created = self.send("create_topics", {"topics": [wanted]})["topics"][0]
        if created["error_code"] != "NONE":
            raise AssertionError(f"cannot create {name}: {created}")
        self.until(lambda: self.is_served(name, partitions), f"a leader for {name}")
        return Topic(name, created["topic_id"])

    def is_served(self, name: str, partitions: int) -> bool:
        wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        answer = self.send("list_offsets", {"replica_id": -1, "topics": [{"name": name, "partitions": wanted}]})
        return all(partition["error_code"] == "NONE" for partition in answer["topics"][0]["partitions"])

    def await_coordinator(self, key_type: int, key: str = "some-key") -> None:
        """Apache Kafka makes the topics behind coordinators when somebody first asks for one."""
        asked = {"key_type": key_type, "coordinator_keys": [key]}

        def found() -> bool:
            answer = self.send("find_coordinator", asked)
            return bool(answer["coordinators"][0]["error_code"] != "COORDINATOR_NOT_AVAILABLE")

        self.until(found, f"a coordinator of type {key_type}")

    def new_producer(self) -> int:
        """Apache Kafka refuses the first requests for an id, while it fetches a block of them."""

        def given() -> bool:
            answer = self.send("init_producer_id", {"transactional_id": None, "transaction_timeout": 60_000})
            ids.append(int(answer["producer_id"]))
            return bool(answer["error_code"] == "NONE")

        ids: list[int] = []
        self.until(given, "a producer id")
        return ids[-1]

    def is_known(self, name: str) -> bool:
        described = self.send("metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": False})
        return bool(described["topics"][0]["error_code"] == "NONE")

    def fill(self, topic: Topic, *sent: Batch, partition: int = 0) -> None:
        """Append batches one request each; they must be accepted."""
        for batch in sent:
            answer = self.send("produce", self.produce(topic, batch, partition=partition))
            outcome = answer["responses"][0]["partition_responses"][0]
            if outcome["error_code"] != "NONE":
                raise AssertionError(f"cannot fill {topic.name}: {outcome}")

    # -- requests that many scenarios share ------------------------------------------------------------------------

    def produce(
        self, topic: Topic, *sent: Batch | bytes | None, partition: int = 0, acks: int = -1, **more: Plain
    ) -> Fields:
        parts = [self._remembered(part) if isinstance(part, Batch) else part for part in sent]
        records = None if None in parts else b"".join(part for part in parts if part is not None)
        data = {"index": partition, "records": records}
        topic_data = {"name": topic.name, "topic_id": as_uuid(topic.id), "partition_data": [data]}
        return {"acks": acks, "timeout": 5000, "topic_data": [topic_data], **more}

    def fetch(self, topic: Topic, offset: int, *, partition: int = 0, **more: Plain) -> Fields:
        per_partition = ("current_leader_epoch", "last_fetched_epoch", "log_start_offset", "partition_max_bytes")
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        wanted |= {key: more.pop(key) for key in per_partition if key in more}
        topics = [{"topic": topic.name, "topic_id": as_uuid(topic.id), "partitions": [wanted]}]
        return {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 24, "topics": topics, **more}

    # -- inside ----------------------------------------------------------------------------------------------------

    def _exchange(
        self,
        name: str,
        version: int,
        body: bytes,
        *,
        answer_version: int | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Plain:
        try:
            correlation = self._send(name, version, body)
        except OSError:
            self.client.close()
            return NoAnswer.CLOSED
        return self._receive(name, version if answer_version is None else answer_version, correlation, seconds)

    def _send(self, name: str, version: int, body: bytes) -> int:
        correlation = self.client.next_correlation()
        header = request_header(
            api(name).key, version, correlation, flexible=is_flexible(name, version), client_id=self.client.client_id
        )
        self.client.send(frame(header + body))
        return correlation

    def _receive(self, name: str, version: int, correlation: int, seconds: float) -> Plain:
        raw = self.client.receive(seconds)
        if isinstance(raw, NoAnswer):
            return raw
        answered = struct.unpack_from(">i", raw)[0]
        if answered != correlation:
            raise AssertionError(f"{name} v{version}: correlation id {answered} instead of {correlation}")
        head = 5 if is_flexible(name, version) and name not in _OLD_ANSWER_HEADER else 4
        answer = decode_response(name, version, raw[head:])
        self._learn(name, answer)
        return answer

    def _remembered(self, batch: Batch) -> bytes:
        encoded = batch.encode()
        self.normaliser.sent_crcs.add(struct.unpack_from(">I", encoded, batches.CRC_AT)[0])
        return encoded

    def _comparable(self, answer: Plain, only_own: bool = False, ordered: bool = False) -> Plain:
        if isinstance(answer, NoAnswer):
            return answer.value
        return self.normaliser.answer(answer, only_own=only_own, ordered=ordered)

    def _learn(self, name: str, answer: Plain) -> None:
        for topic in (
            answer.get("topics", ()) if name in ("metadata", "create_topics", "describe_topic_partitions") else ()
        ):
            if topic.get("name") and topic["error_code"] == "NONE":
                self.normaliser.name_topic_id(topic.get("topic_id"), topic["name"])
        if name == "init_producer_id" and answer["producer_id"] >= 0:
            known = self.normaliser.producer_ids
            known.setdefault(answer["producer_id"], f"producer {len(known) + 1}")
        if name == "fetch" and answer.get("session_id", 0) > 0:
            sessions = self.normaliser.session_ids
            sessions.setdefault(answer["session_id"], f"session {len(sessions) + 1}")


def as_uuid(topic_id: str | None) -> uuid.UUID | None:
    return None if topic_id is None else uuid.UUID(topic_id)
