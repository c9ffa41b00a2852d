// A service in JavaScript that shares a registry with others: KafkaJS' client writes and reads values in all three
// kinds, Confluent's own client asks for everything else.
//
//     node schemas.mjs REGISTRY PREFIX VALUES
//
// VALUES is JSON: values of ours in base64, by subject, which are read first. Prints JSON: what they held, values of its
// own, and what its questions were answered.

import registryOfKafkaJs from "@kafkajs/confluent-schema-registry";
import confluent from "@confluentinc/schemaregistry";

const { SchemaRegistry, SchemaType, COMPATIBILITY } = registryOfKafkaJs;
const [url, prefix, given] = process.argv.slice(2);
const kafkaJs = new SchemaRegistry({ host: url }, { [SchemaType.PROTOBUF]: { messageName: "Tea" } });
const client = new confluent.SchemaRegistryClient({ baseURLs: [url] });

const avro = (extra = []) => JSON.stringify({
  type: "record", name: "Tea", namespace: prefix.replaceAll("-", "_"), fields: [{ name: "leaves", type: "int" }, ...extra],
});
const json = JSON.stringify({
  $schema: "http://json-schema.org/draft-07/schema#", title: "Tea", type: "object", additionalProperties: false,
  properties: { leaves: { type: "integer" } },
});
const proto = `syntax = "proto3"; package ${prefix.replaceAll("-", "_")}; message Tea { int32 leaves = 1; }`;
const answers = {};

const read = {};
for (const [subject, value] of Object.entries(JSON.parse(given))) {
  read[subject] = await kafkaJs.decode(Buffer.from(value, "base64"));
}

const values = {};
for (const [type, schema] of [[SchemaType.AVRO, avro()], [SchemaType.JSON, json], [SchemaType.PROTOBUF, proto]]) {
  const subject = `${prefix}-${type}`;
  const { id } = await kafkaJs.register({ type, schema }, { subject, compatibility: COMPATIBILITY.BACKWARD });
  values[subject] = (await kafkaJs.encode(id, { leaves: 3 })).toString("base64");
  if ((await kafkaJs.decode(Buffer.from(values[subject], "base64"))).leaves !== 3) throw new Error(subject);
  if ((await kafkaJs.getLatestSchemaId(subject)) !== id) throw new Error(`${subject}: latest`);
}

const refusal = (promise) => promise.then(() => "accepted", (error) => error.errorCode ?? error.status ?? String(error));
const wider = { schemaType: "AVRO", schema: avro([{ name: "sugar", type: "int" }]) };
const subject = `${prefix}-asked`;
await client.register(subject, { schemaType: "AVRO", schema: avro() });
answers.incompatible = await refusal(client.register(subject, wider));
answers.compatible = await client.testSubjectCompatibility(subject, wider);
answers.versions = await client.getAllVersions(subject);
answers.level = await client.getCompatibility(`${prefix}-AVRO`);
await client.updateCompatibility(subject, "NONE");
const id = await client.register(subject, wider);
answers.kept = (await client.getBySubjectAndId(subject, id)).schema === wider.schema;
answers.version = await client.getVersion(subject, wider);
answers.missing = await refusal(client.getLatestSchemaMetadata(`${prefix}-gone`));
answers.deleted = await client.deleteSubject(subject);
answers.again = await client.deleteSubject(subject, true);
answers.gone = await refusal(client.getAllVersions(subject));
console.log(JSON.stringify({ read, values, answers }));
process.exit(0);
