"""v3: consumer groups, their members, what these read, and how far behind they are."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from moldau.rest import errors
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import CONTROL, FLAG, JSON, NUMBER, PREFIX, TEXT, Context, listing, thing, whole
from moldau.web import Api, Call

GROUP: Final = {"consumer_group_id": TEXT, "is_simple": FLAG, "partition_assignor": TEXT, "state": TEXT, "type": TEXT}
MEMBER: Final = {"consumer_group_id": TEXT, "consumer_id": TEXT, "client_id": TEXT}
ASSIGNMENT: Final = {**MEMBER, "topic_name": TEXT, "partition_id": NUMBER}
LAG: Final = {"consumer_group_id": TEXT, "topic_name": TEXT, "current_offset": NUMBER, "lag": NUMBER}
SUMMARY: Final = {"consumer_group_id": TEXT, "max_lag": NUMBER, "total_lag": NUMBER}
ONE: Final = PREFIX + "/consumer-groups/{consumer_group_id}"
MEMBER_PATH: Final = ONE + "/consumers/{consumer_id}"
PAUSE_SECONDS: Final = 0.1
PLACE: Final = "/{topic_name}/partitions/{partition_id}"


class Lag(NamedTuple):
    topic: str
    partition: int
    member: Any
    current: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - self.current


def add(api: Api, proxy: Proxy) -> None:
    add_groups(api, proxy)
    add_members(api, proxy)
    add_lags(api, proxy)


def common() -> dict[str, Any]:
    return {"produces": JSON, "tag": "Consumer Group", "errors": CONTROL}


def add_groups(api: Api, proxy: Proxy) -> None:
    @api.get(f"{PREFIX}/consumer-groups", name="api.v3.consumer-groups.list", answer=listing(GROUP), **common())
    async def groups(call: Call) -> object:
        """The consumer groups"""
        context = await Context.of(proxy, call)
        backend = context.backend
        listed = await backend.ask(lambda: backend.admin.list_consumer_groups(request_timeout=backend.seconds))
        if listed.errors and not listed.valid:
            raise errors.of_kafka(listed.errors[0])
        names = sorted(each.group_id for each in listed.valid)
        found = [group for group in (await described(context, names)).values() if not isinstance(group, Exception)]
        data = (as_group(context, group) for group in found)
        return context.listed("KafkaConsumerGroup", context.url("consumer-groups"), data)

    @api.get(ONE, name="api.v3.consumer-groups.get", answer=thing(GROUP), **common())
    async def group(call: Call) -> object:
        """One consumer group"""
        context = await Context.of(proxy, call)
        return as_group(context, await group_of(context, call))


def add_members(api: Api, proxy: Proxy) -> None:
    @api.get(f"{ONE}/consumers", name="api.v3.consumers.list", answer=listing(MEMBER), **common())
    async def members(call: Call) -> object:
        """The members of a group"""
        context = await Context.of(proxy, call)
        group = await group_of(context, call)
        found = sorted(group.members, key=lambda each: each.member_id)
        url = context.url("consumer-groups", group.group_id, "consumers")
        return context.listed("KafkaConsumer", url, (as_member(context, group.group_id, each) for each in found))

    @api.get(MEMBER_PATH, name="api.v3.consumers.get", answer=thing(MEMBER), **common())
    async def member(call: Call) -> object:
        """One member"""
        context = await Context.of(proxy, call)
        group, found = await member_of(context, call)
        return as_member(context, group.group_id, found)

    path = f"{MEMBER_PATH}/assignments"

    @api.get(path, name="api.v3.consumer-assignments.list", answer=listing(ASSIGNMENT), **common())
    async def assignments(call: Call) -> object:
        """The partitions of a member"""
        context = await Context.of(proxy, call)
        group, found = await member_of(context, call)
        place = ("consumer-groups", group.group_id, "consumers", found.member_id, "assignments")
        data = [
            as_assignment(context, group.group_id, found.member_id, each.topic, each.partition)
            for each in sorted(found.assignment.topic_partitions, key=lambda each: (each.topic, each.partition))
        ]
        return context.listed("KafkaConsumerAssignment", context.url(*place), data)

    @api.get(path + PLACE, name="api.v3.consumer-assignments.get", answer=thing(ASSIGNMENT), **common())
    async def assignment(call: Call) -> object:
        """One of them"""
        context = await Context.of(proxy, call)
        group, found = await member_of(context, call)
        wanted = call.path["topic_name"], whole(call.path["partition_id"], "Partition")
        if wanted not in {(each.topic, each.partition) for each in found.assignment.topic_partitions}:
            raise errors.not_found(f"{wanted[0]}-{wanted[1]} is not assigned to {found.member_id}.")
        return as_assignment(context, group.group_id, found.member_id, *wanted)


def add_lags(api: Api, proxy: Proxy) -> None:
    @api.get(f"{ONE}/lag-summary", name="api.v3.consumer-lag-summaries.get", answer=thing(SUMMARY), **common())
    async def summary(call: Call) -> object:
        """How far behind a group is"""
        context = await Context.of(proxy, call)
        group = await group_of(context, call)
        return as_summary(context, group.group_id, await lags_of(context, group))

    @api.get(f"{ONE}/lags", name="api.v3.consumer-lags.list", answer=listing(LAG), **common())
    async def lags(call: Call) -> object:
        """The same for each partition, the largest first"""
        context = await Context.of(proxy, call)
        group = await group_of(context, call)
        found = sorted(await lags_of(context, group), key=lambda each: (-each.lag, each.topic, each.partition))
        url = context.url("consumer-groups", group.group_id, "lags")
        return context.listed("KafkaConsumerLag", url, (as_lag(context, group.group_id, each) for each in found))

    @api.get(f"{ONE}/lags{PLACE}", name="api.v3.consumer-lags.get", answer=thing(LAG), **common())
    async def lag(call: Call) -> object:
        """The same for one partition"""
        context = await Context.of(proxy, call)
        group = await group_of(context, call)
        wanted = call.path["topic_name"], whole(call.path["partition_id"], "Partition")
        for each in await lags_of(context, group):
            if (each.topic, each.partition) == wanted:
                return as_lag(context, group.group_id, each)
        raise errors.not_found(f"Group {group.group_id} has committed nothing for {wanted[0]}-{wanted[1]}.")


# -- asking ----------------------------------------------------------------------------------------------------------


async def described(context: Context, names: list[str]) -> dict[str, Any]:
    """A coordinator that is just being made, or moves, is asked again, as Java's client does."""
    if not names:
        return {}
    backend, monotonic = context.backend, context.proxy.monotonic
    deadline = monotonic() + backend.seconds
    while True:
        found = await backend.ask_each(
            lambda: backend.admin.describe_consumer_groups(names, request_timeout=backend.seconds)
        )
        if not any(is_passing(each) for each in found.values()) or monotonic() > deadline:
            return found
        await asyncio.sleep(PAUSE_SECONDS)


def is_passing(answer: Any) -> bool:
    return isinstance(answer, errors.RestError) and answer.code == 50003


async def group_of(context: Context, call: Call) -> Any:
    name = call.path["consumer_group_id"]
    found = (await described(context, [name]))[name]
    missing = errors.not_found(f"Consumer Group {name} could not be found.")
    if isinstance(found, errors.RestError):
        raise missing if found.code == 40405 else found
    if found.state.name == "DEAD":
        raise missing
    return found


async def member_of(context: Context, call: Call) -> tuple[Any, Any]:
    group = await group_of(context, call)
    for member in group.members:
        if member.member_id == call.path["consumer_id"]:
            return group, member
    raise errors.not_found(f"Consumer {call.path['consumer_id']} does not exist.")


async def lags_of(context: Context, group: Any) -> list[Lag]:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    backend = context.backend
    asked = [ConsumerGroupTopicPartitions(group.group_id)]
    answers = await backend.ask_all(
        lambda: backend.admin.list_consumer_group_offsets(asked, request_timeout=backend.seconds)
    )
    committed = {
        (each.topic, each.partition): each.offset
        for answer in answers.values()
        for each in answer.topic_partitions
        if each.offset >= 0
    }
    if not committed:
        raise errors.not_found("Consumer group offsets could not be found.")
    wanted = {TopicPartition(*place): OffsetSpec.latest() for place in committed}
    ends = await backend.ask_each(lambda: backend.admin.list_offsets(wanted, request_timeout=backend.seconds))
    members = {
        (each.topic, each.partition): member for member in group.members for each in member.assignment.topic_partitions
    }
    return [
        Lag(place.topic, place.partition, members.get(at := (place.topic, place.partition)), committed[at], end.offset)
        for place, end in ends.items()
        if not isinstance(end, errors.RestError)
    ]


# -- answers ---------------------------------------------------------------------------------------------------------


def as_group(context: Context, found: Any) -> dict[str, Any]:
    name = found.group_id
    place = ("consumer-groups", name)
    return context.item(
        "KafkaConsumerGroup",
        place,
        f"consumer-group={name}",
        consumer_group_id=name,
        is_simple=bool(found.is_simple_consumer_group),
        partition_assignor=found.partition_assignor or "",
        state=found.state.name,
        type=found.type.name,
        is_mixed_consumer_group=False,
        coordinator=context.related("brokers", found.coordinator.id) if found.coordinator else None,
        consumers=context.related(*place, "consumers"),
        lag_summary=context.related(*place, "lag-summary"),
    )


def as_member(context: Context, group: str, found: Any) -> dict[str, Any]:
    place = ("consumer-groups", group, "consumers", found.member_id)
    return context.item(
        "KafkaConsumer",
        place,
        f"consumer-group={group}/consumer={found.member_id}",
        consumer_group_id=group,
        consumer_id=found.member_id,
        instance_id=found.group_instance_id,
        client_id=found.client_id,
        assignments=context.related(*place, "assignments"),
    )


def as_assignment(context: Context, group: str, member: str, topic: str, partition: int) -> dict[str, Any]:
    place = ("consumer-groups", group, "consumers", member, "assignments", topic, "partitions", partition)
    return context.item(
        "KafkaConsumerAssignment",
        place,
        f"consumer-group={group}/consumer={member}/assignment={topic}/partition={partition}",
        consumer_group_id=group,
        consumer_id=member,
        topic_name=topic,
        partition_id=partition,
        partition=context.related("topics", topic, "partitions", partition),
        lag=context.related("consumer-groups", group, "lags", topic, "partitions", partition),
    )


def as_lag(context: Context, group: str, found: Lag) -> dict[str, Any]:
    member = found.member
    return context.item(
        "KafkaConsumerLag",
        ("consumer-groups", group, "lags", found.topic, "partitions", found.partition),
        f"consumer-group={group}/lag={found.topic}/partition={found.partition}",
        consumer_group_id=group,
        topic_name=found.topic,
        partition_id=found.partition,
        consumer_id=member.member_id if member else "",
        instance_id=member.group_instance_id if member else None,
        client_id=member.client_id if member else "",
        current_offset=found.current,
        log_end_offset=found.end,
        lag=found.lag,
    )


def as_summary(context: Context, group: str, found: list[Lag]) -> dict[str, Any]:
    worst = max(found, key=lambda each: each.lag)
    member = worst.member
    name = member.member_id if member else ""
    return context.item(
        "KafkaConsumerGroupLagSummary",
        ("consumer-groups", group, "lag-summary"),
        f"consumer-group={group}/lag-summary",
        consumer_group_id=group,
        max_lag_consumer_id=name,
        max_lag_instance_id=member.group_instance_id if member else None,
        max_lag_client_id=member.client_id if member else "",
        max_lag_topic_name=worst.topic,
        max_lag_partition_id=worst.partition,
        max_lag=worst.lag,
        total_lag=sum(each.lag for each in found),
        max_lag_consumer=context.related("consumer-groups", group, "consumers", name),
        max_lag_partition=context.related("topics", worst.topic, "partitions", worst.partition),
    )
