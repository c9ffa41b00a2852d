"""AddPartitionsToTxn, versions 0 to 5: partitions that a transaction will write to; from 4 on batched, and only
verified if asked.

Clients send versions up to 3; the later ones are spoken between brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.fencing import known_code
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BATCHED_FROM = 4


async def handle(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    if context.api_version < BATCHED_FROM:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await add(broker, context, transaction))
    if not broker.authorizer.allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    # Each waits for its replicas, all at the same time.
    added = await asyncio.gather(*(add(broker, context, transaction) for transaction in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=found)
            for transaction, found in zip(request.transactions, added, strict=True)
        ]
    )


async def add(
    broker: Broker, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    wanted = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    refused = refusals(broker, context, transaction, wanted)
    if refused:
        # All or nothing: what was not at fault was not attempted either.
        codes = {partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in wanted}
        return results(transaction.topics, codes)
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            codes = await broker.transactions.verify_partitions(transaction.transactional_id, producer, wanted)
        else:
            version = 2 if context.api_version > BATCHED_FROM else 0
            await broker.transactions.add_partitions(transaction.transactional_id, producer, wanted, version)
            codes = {}
    except KafkaError as error:
        codes = dict.fromkeys(wanted, known_code(error.code, context.api_version))
    return results(transaction.topics, codes)


def refusals(
    broker: Broker,
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    wanted: Sequence[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """Of a client's request; later versions are spoken among brokers, which may do all of it."""
    from_client = context.api_version < BATCHED_FROM
    transactional_id = transaction.transactional_id
    authorizer = broker.authorizer
    if from_client and not authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(wanted, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    found = {}
    for partition in wanted:
        if from_client and not authorizer.allows(context, Operation.WRITE, Resource.TOPIC, partition.topic):
            found[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.image.partition(partition.topic, partition.partition) is None:
            found[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found


def results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes.get(TopicPartition(topic.name, index), ErrorCode.NONE),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, AddPartitionsToTxnRequest, handle)
