// Confluent's own Avro serializer and deserializer for Java (as Apache Hudi ships them, of 2020) in Apache Kafka's
// producer and consumer.
//
// SerdeExchange registry bootstrap topic: reads a key and a value from `topic`-in; writes to `topic`-0, -1 and -2, each
// with another strategy of naming subjects, and reads these back; tells what it saw.

import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import io.confluent.kafka.serializers.subject.RecordNameStrategy;
import io.confluent.kafka.serializers.subject.TopicNameStrategy;
import io.confluent.kafka.serializers.subject.TopicRecordNameStrategy;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SerializationException;

public class SerdeExchange {
    static final String TEA = "{\"type\":\"record\",\"name\":\"Tea\",\"fields\":[{\"name\":\"leaves\",\"type\":\"int\"}]}";
    static final String WIDER = "{\"type\":\"record\",\"name\":\"Tea\",\"fields\":[{\"name\":\"leaves\",\"type\":\"int\"},"
        + "{\"name\":\"sugar\",\"type\":\"int\",\"default\":1}]}";
    static final String OTHER = "{\"type\":\"record\",\"name\":\"Tea\",\"fields\":[{\"name\":\"milk\",\"type\":\"int\"}]}";
    static final List<Class<?>> STRATEGIES =
        List.of(TopicNameStrategy.class, RecordNameStrategy.class, TopicRecordNameStrategy.class);

    static Properties client(String registry, String bootstrap) {
        Properties found = new Properties();
        found.put("bootstrap.servers", bootstrap);
        found.put("schema.registry.url", registry);
        found.put("key.serializer", KafkaAvroSerializer.class.getName());
        found.put("value.serializer", KafkaAvroSerializer.class.getName());
        found.put("key.deserializer", KafkaAvroDeserializer.class.getName());
        found.put("value.deserializer", KafkaAvroDeserializer.class.getName());
        return found;
    }

    static GenericRecord record(String schema, String field, int value) {
        GenericRecord found = new GenericData.Record(new Schema.Parser().parse(schema));
        found.put(field, value);
        return found;
    }

    static String first(Properties settings, String topic) {
        try (KafkaConsumer<Object, Object> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> place = List.of(new TopicPartition(topic, 0));
            consumer.assign(place);
            consumer.seekToBeginning(place);
            while (true) {
                for (ConsumerRecord<Object, Object> record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.key() + " " + record.value();
                }
            }
        }
    }

    static String refusal(KafkaProducer<Object, Object> producer, ProducerRecord<Object, Object> record) throws Exception {
        try {
            producer.send(record).get();
            return "none";
        } catch (SerializationException error) {
            return error.getCause().getMessage().replaceAll("(?s).*error code: (\\d+).*", "$1");
        }
    }

    public static void main(String[] given) throws Exception {
        String topic = given[2];
        System.out.println("in " + first(client(given[0], given[1]), topic + "-in"));
        for (int number = 0; number < STRATEGIES.size(); number++) {
            Properties settings = client(given[0], given[1]);
            settings.put("value.subject.name.strategy", STRATEGIES.get(number).getName());
            String out = topic + "-" + number;
            try (KafkaProducer<Object, Object> producer = new KafkaProducer<>(settings)) {
                producer.send(new ProducerRecord<>(out, "key", record(TEA, "leaves", number))).get();
                System.out.println("refused " + refusal(producer, new ProducerRecord<>(out, record(OTHER, "milk", 1))));
            }
            settings.put("auto.register.schemas", "false");
            try (KafkaProducer<Object, Object> producer = new KafkaProducer<>(settings)) {
                producer.send(new ProducerRecord<>(out, "key", record(TEA, "leaves", number))).get();
                System.out.println("unknown " + refusal(producer, new ProducerRecord<>(out, record(WIDER, "leaves", 1))));
            }
            System.out.println("out " + first(settings, out));
        }
    }
}
