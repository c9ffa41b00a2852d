// Confluent's Java client of a schema registry (as Apache Flink ships it) and Apache Kafka's clients: registers, looks
// up, compares, and exchanges Avro values with another program.
//
// SchemaExchange registry bootstrap topic: reads one value of `topic`-in, writes one to `topic`-out, tells what it saw.

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.ParsedSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class SchemaExchange {
    static final String TEA = "{\"type\":\"record\",\"name\":\"Tea\",\"fields\":[{\"name\":\"leaves\",\"type\":\"int\"}]}";
    static final String WIDER = "{\"type\":\"record\",\"name\":\"Tea\",\"fields\":[{\"name\":\"leaves\",\"type\":\"int\"},"
        + "{\"name\":\"sugar\",\"type\":\"int\",\"default\":1}]}";
    static final String NARROW = "{\"type\":\"record\",\"name\":\"Tea\",\"fields\":[{\"name\":\"milk\",\"type\":\"int\"}]}";
    static final String ORDER = "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"tea\",\"type\":\"Tea\"}]}";

    static void tell(String what, Object value) {
        System.out.println(what + " " + value);
    }

    interface Call {
        Object make() throws Exception;
    }

    static int refused(Call call) throws Exception {
        try {
            call.make();
            return 0;
        } catch (RestClientException error) {
            return error.getErrorCode();
        }
    }

    static Properties client(String bootstrap) {
        Properties found = new Properties();
        found.put("bootstrap.servers", bootstrap);
        found.put("key.serializer", ByteArraySerializer.class.getName());
        found.put("value.serializer", ByteArraySerializer.class.getName());
        found.put("key.deserializer", ByteArrayDeserializer.class.getName());
        found.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return found;
    }

    static GenericRecord read(CachedSchemaRegistryClient registry, byte[] value) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(value);
        if (buffer.get() != 0) {
            throw new IllegalStateException("no schema id");
        }
        ParsedSchema written = registry.getSchemaById(buffer.getInt());
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(((AvroSchema) written).rawSchema());
        return reader.read(null, DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, null));
    }

    static byte[] written(int id, GenericRecord record) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(ByteBuffer.allocate(5).put((byte) 0).putInt(id).array());
        var encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, encoder);
        return out.toByteArray();
    }

    static GenericRecord first(CachedSchemaRegistryClient registry, String bootstrap, String topic) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(client(bootstrap))) {
            List<TopicPartition> place = List.of(new TopicPartition(topic, 0));
            consumer.assign(place);
            consumer.seekToBeginning(place);
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    return read(registry, record.value());
                }
            }
        }
    }

    static void look(CachedSchemaRegistryClient registry, String subject) throws Exception {
        int id = registry.register(subject, new AvroSchema(TEA));
        tell("same", registry.register(subject, new AvroSchema(TEA)) == id);
        tell("id", registry.getId(subject, new AvroSchema(TEA)) == id);
        tell("version", registry.getVersion(subject, new AvroSchema(TEA)));
        tell("compatible", registry.testCompatibility(subject, new AvroSchema(WIDER)));
        tell("incompatible", registry.testCompatibility(subject, new AvroSchema(NARROW)));
        tell("messages", !registry.testCompatibilityVerbose(subject, new AvroSchema(NARROW)).isEmpty());
        tell("refused", refused(() -> registry.register(subject, new AvroSchema(NARROW))));
        tell("level", registry.updateCompatibility(subject, "FULL") + " " + registry.getCompatibility(subject));
        registry.register(subject, new AvroSchema(WIDER));
        tell("versions", registry.getAllVersions(subject));
        tell("latest", registry.getLatestSchemaMetadata(subject).getVersion());
        tell("subjects", registry.getAllSubjectsById(id).contains(subject));
        tell("mode", registry.getMode());
        SchemaReference tea = new SchemaReference("Tea", subject, 1);
        AvroSchema order = new AvroSchema(ORDER, List.of(tea), Map.of("Tea", TEA), null);
        int ordered = registry.register(subject + "-order", order);
        registry.reset();
        AvroSchema again = (AvroSchema) registry.getSchemaById(ordered);
        tell("reference", again.rawSchema().getField("tea").schema().getField("leaves").schema().getType());
        tell("protected", refused(() -> registry.deleteSubject(subject)));
        tell("deleted", registry.deleteSubject(subject + "-order") + " " + registry.deleteSubject(subject));
        tell("gone", refused(() -> registry.getLatestSchemaMetadata(subject)));
        registry.deleteSubject(subject + "-order", true);
        tell("forgotten", registry.deleteSubject(subject, true));
    }

    public static void main(String[] given) throws Exception {
        String bootstrap = given[1];
        String topic = given[2];
        CachedSchemaRegistryClient registry = new CachedSchemaRegistryClient(given[0], 100);
        look(registry, topic + "-looked-at");
        tell("read", first(registry, bootstrap, topic + "-in"));
        AvroSchema schema = new AvroSchema(TEA);
        GenericRecord record = new GenericData.Record(schema.rawSchema());
        record.put("leaves", 3);
        int id = registry.register(topic + "-out-value", schema);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(client(bootstrap))) {
            producer.send(new ProducerRecord<>(topic + "-out", written(id, record))).get();
        }
        tell("done", id);
    }
}
