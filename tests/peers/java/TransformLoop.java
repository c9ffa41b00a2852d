import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Members of groups that copy a topic in short transactions, one behind the other: records and offsets together.
 *
 * <p>Arguments: name=value of bootstrap, input, count (its records), members (of each group), records (at most in a
 * transaction), groups: names separated by commas that begin with the group's protocol (classic, consumer), with
 * "-static" for members with an instance id. Each group writes to a topic of its own name behind the input's. Prints
 * for each group how many transactions its members have committed.
 */
public final class TransformLoop {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, AtomicInteger> COPIED = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            given.put(pair[0], pair[1]);
        }
        int members = Integer.parseInt(given.get("members"));
        String[] groups = given.get("groups").split(",");
        ExecutorService threads = Executors.newFixedThreadPool(members * groups.length);
        Map<String, List<Future<Integer>>> results = new HashMap<>();
        for (String group : groups) {
            COPIED.put(group, new AtomicInteger());
            for (int index = 0; index < members; index++) {
                int member = index;
                Callable<Integer> copy = () -> copy(given, group, member);
                results.computeIfAbsent(group, name -> new ArrayList<>()).add(threads.submit(copy));
            }
        }
        try {
            for (String group : groups) {
                int transactions = 0;
                for (Future<Integer> result : results.get(group)) {
                    transactions += result.get();
                }
                System.out.println(group + " " + transactions);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private static int copy(Map<String, String> given, String group, int member) {
        String input = given.get("input");
        int count = Integer.parseInt(given.get("count"));
        AtomicInteger copied = COPIED.get(group);
        int transactions = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading(given, group, member));
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing(given, group, member))) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            while (copied.get() < count) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(
                            input + "-" + group, record.partition(), record.key(), record.value()));
                    read.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                try {
                    producer.sendOffsetsToTransaction(read, consumer.groupMetadata());
                    producer.commitTransaction();
                    copied.addAndGet(records.count());
                    transactions++;
                } catch (CommitFailedException moved) {
                    // The group has given the partitions to others; what is still ours is read again.
                    producer.abortTransaction();
                    rewind(consumer);
                }
            }
        }
        return transactions;
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata known = committed.get(partition);
            consumer.seek(partition, known == null ? 0 : known.offset());
        }
    }

    private static Map<String, Object> reading(Map<String, String> given, String group, int member) {
        Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", given.get("bootstrap"),
                "group.id", given.get("input") + "-" + group,
                "group.protocol", group.split("-")[0],
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "isolation.level", "read_committed",
                "max.poll.records", given.get("records"),
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class));
        if (group.endsWith("-static")) {
            settings.put("group.instance.id", "member-" + member);
        }
        return settings;
    }

    private static Map<String, Object> writing(Map<String, String> given, String group, int member) {
        return Map.of(
                "bootstrap.servers", given.get("bootstrap"),
                "transactional.id", given.get("input") + "-" + group + "-" + member,
                "key.serializer", StringSerializer.class,
                "value.serializer", StringSerializer.class);
    }
}
