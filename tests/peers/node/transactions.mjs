// KafkaJS: copies a topic in short transactions, one behind the other, records and offsets together; every so often one
// is aborted, and its records are copied by the next.
//
//     node transactions.mjs BOOTSTRAP INPUT OUTPUT COUNT RECORDS ABORT
//
// COUNT: the input's records. RECORDS: at most in a transaction. ABORT: each so-manieth transaction is aborted. Prints
// how many were committed and how many aborted.

import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;
const [bootstrap, input, output, ...numbers] = process.argv.slice(2);
const [count, most, abort] = numbers.map(Number);
const kafka = new Kafka({ brokers: [bootstrap], clientId: output, logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: output, maxWaitTimeInMs: 100 });
const producer = kafka.producer({ transactionalId: output, idempotent: true, maxInFlightRequests: 1 });
let copied = 0, committed = 0, aborted = 0;

async function transact(topic, partition, messages) {
  const transaction = await producer.transaction();
  await transaction.send({
    topic: output, messages: messages.map(({ key, value }) => ({ key, value, partition })),
  });
  const offset = (BigInt(messages[messages.length - 1].offset) + 1n).toString();
  await transaction.sendOffsets({ consumerGroupId: output, topics: [{ topic, partitions: [{ partition, offset }] }] });
  if ((committed + aborted) % abort === abort - 1) {
    await transaction.abort();
    aborted += 1;
    return false;
  }
  await transaction.commit();
  committed += 1;
  return true;
}

await producer.connect();
await consumer.connect();
await consumer.subscribe({ topic: input, fromBeginning: true });
await new Promise((done, failed) => {
  consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error));
  consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (let begin = 0; begin < batch.messages.length; ) {
        const messages = batch.messages.slice(begin, begin + most);
        if (!(await transact(batch.topic, batch.partition, messages))) continue;
        begin += messages.length;
        resolveOffset(messages[messages.length - 1].offset);
        await heartbeat();
        copied += messages.length;
      }
      if (copied >= count) done();
    },
  });
});
await consumer.disconnect();
await producer.disconnect();
console.log(JSON.stringify({ committed, aborted }));
