"""Creating topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError
from moldau.config.topic import validate_overrides
from moldau.metadata import codec, paths
from moldau.metadata.controller import assignments, topic_ids
from moldau.metadata.controller.decision import (
    MAX_RECORDS_PER_REQUEST,
    Charge,
    Decision,
    Permission,
    Rng,
    everyone,
    free_of_charge,
)
from moldau.metadata.controller.topic_names import (
    check_topic_name,
    has_colliding_characters,
    metric_name,
)
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Operation, Put
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import ZERO_TOPIC_ID
from moldau.types.internal_topics import METADATA_TOPIC
from moldau.work.slices import Work, pauses

UNSET = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
TOPICS_PER_TURN = 8


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as a client asks for it. `assignments` are (partition, replicas) pairs in the order given."""

    name: str
    num_partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The answer for one topic; what is known of it only if `code` is NONE."""

    name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = ZERO_TOPIC_ID
    num_partitions: int = UNSET
    replication_factor: int = UNSET
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    broker: BrokerConfig,
    rng: Rng,
    new_uuid: Callable[[], UUID],
    *,
    validate_only: bool = False,
    may_create: Permission = everyone,
    charge: Charge = free_of_charge,
) -> Work[Decision[list[CreatedTopic]]]:
    """Each topic succeeds or fails alone, except that a request beyond the size limits fails as a whole."""
    if _requested_partitions(topics, broker) > MAX_PARTITIONS_PER_REQUEST:
        return _all_refused(topics, "Excessively large number of partitions per request.")
    names = Counter(topic.name for topic in topics)
    wanted = [t for t in topics if names[t.name] == 1 and t.name != METADATA_TOPIC and may_create(t.name)]
    collisions = _Collisions(image)
    paused = pauses(TOPICS_PER_TURN)
    operations: list[Operation] = []
    answers = []
    for topic in wanted:
        try:
            created, puts = yield from _create(image, topic, broker, collisions, rng, new_uuid, charge)
        except KafkaError as error:
            created, puts = CreatedTopic(topic.name, error.code, error.message), []
        operations += puts
        answers.append(created)
        if next(paused):
            yield
    if _records(answers) > MAX_RECORDS_PER_REQUEST:
        return _all_refused(topics, "Unable to perform excessively large batch operation.")
    answers += _never_tried(names, may_create)
    return Decision(() if validate_only else operations, answers)


def _never_tried(names: Mapping[str, int], may_create: Permission) -> list[CreatedTopic]:
    answers = []
    for name, times in names.items():
        if times > 1:
            answers.append(CreatedTopic(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif name == METADATA_TOPIC:
            message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            answers.append(CreatedTopic(name, ErrorCode.INVALID_REQUEST, message))
        elif not may_create(name):
            answers.append(CreatedTopic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
    return answers


def _requested_partitions(topics: Sequence[NewTopic], broker: BrokerConfig) -> int:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += broker.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
    return total


def _records(answers: Sequence[CreatedTopic]) -> int:
    """Kafka writes a record for each topic, each of its settings and each partition."""
    return sum(1 + len(a.configs) + a.num_partitions for a in answers if a.code is ErrorCode.NONE)


def _all_refused(topics: Sequence[NewTopic], message: str) -> Decision[list[CreatedTopic]]:
    return Decision((), [CreatedTopic(topic.name, ErrorCode.POLICY_VIOLATION, message) for topic in topics])


class _Collisions:
    """The existing topics by the name that their metrics have, looked through only when a new name needs it."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._by_metric_name: dict[str, str] | None = None

    def of(self, name: str) -> str | None:
        if not has_colliding_characters(name):
            return None
        if self._by_metric_name is None:
            self._by_metric_name = {}
            for existing in self._image.topics:
                if has_colliding_characters(existing):
                    self._by_metric_name.setdefault(metric_name(existing), existing)
        return self._by_metric_name.get(metric_name(name))


def _create(
    image: ClusterImage,
    topic: NewTopic,
    broker: BrokerConfig,
    collisions: _Collisions,
    rng: Rng,
    new_uuid: Callable[[], UUID],
    charge: Charge,
) -> Work[tuple[CreatedTopic, list[Put]]]:
    name = topic.name
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    if (existing := collisions.of(name)) is not None:
        message = f"Topic '{name}' collides with existing topic: {existing}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    configs = _checked_configs(topic, broker)
    placing = _chosen_partitions(image, topic) if topic.assignments else _placed_partitions(image, topic, broker, rng)
    partitions = yield from placing
    charge(len(partitions))
    topic_id = topic_ids.new_topic_id(image, new_uuid)
    puts = []
    if configs:
        puts.append(Put(paths.topic_config(name), codec.encode_settings(configs)))
    paused = pauses()
    for index, replicas in enumerate(partitions):
        puts.append(assignments.new_partition(image, name, index, replicas))
        if next(paused):
            yield
    # Last, since a topic is there when its entry is: what comes before may be written in several commits.
    puts.append(Put(paths.topic(name), codec.encode_topic(topic_id, len(partitions)), ABSENT))
    created = CreatedTopic(
        name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0]),
        configs=configs,
    )
    return created, puts


def _checked_configs(topic: NewTopic, broker: BrokerConfig) -> dict[str, str]:
    try:
        validate_overrides(dict(topic.configs), broker)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return {key: value for key, value in topic.configs if value is not None}


def _chosen_partitions(image: ClusterImage, topic: NewTopic) -> Work[Sequence[Sequence[int]]]:
    paused = pauses()
    if topic.replication_factor != UNSET:
        message = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if topic.num_partitions != UNSET:
        message = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    chosen: dict[int, Sequence[int]] = {}
    replication_factor = None
    for index, replicas in topic.assignments:
        if index in chosen:
            message = f"Found multiple manual partition assignments for partition {index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assignments.check_chosen_replicas(image, replicas, replication_factor)
        assignments.check_some_active(image, replicas, index)
        replication_factor = len(replicas)
        chosen[index] = replicas
        if next(paused):
            yield
    if any(index not in chosen for index in range(len(chosen))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [chosen[index] for index in range(len(chosen))]


def _placed_partitions(
    image: ClusterImage, topic: NewTopic, broker: BrokerConfig, rng: Rng
) -> Work[Sequence[Sequence[int]]]:
    if topic.replication_factor < UNSET or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < UNSET or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    partitions = broker.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
    factor = broker.default_replication_factor if topic.replication_factor == UNSET else topic.replication_factor
    try:
        return (yield from assignments.place_replicas(image, partitions, factor, rng))
    except KafkaError as error:
        message = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise KafkaError(error.code, message) from error
