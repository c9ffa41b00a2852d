import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions one behind the other without a pause, each of one record: "0", "1", … by each producer into its own
 * partition.
 *
 * <p>Arguments: name=value of bootstrap, topic, id (the prefix of the transactional ids), count (for each producer),
 * abort (every so many-th is aborted; 0: none), producers, warm (so many before they are timed), flush (false: the end
 * is asked for right behind the send). Prints for each producer how many were committed, and at last the milliseconds
 * that all took together.
 */
public final class TransactionLoop {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>(Map.of("abort", "0", "producers", "1", "warm", "0", "flush", "true"));
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            given.put(pair[0], pair[1]);
        }
        int producers = Integer.parseInt(given.get("producers"));
        List<KafkaProducer<String, String>> opened = new ArrayList<>();
        for (int index = 0; index < producers; index++) {
            KafkaProducer<String, String> producer = new KafkaProducer<>(settings(given, index));
            producer.initTransactions();
            opened.add(producer);
        }
        ExecutorService threads = Executors.newFixedThreadPool(producers);
        try {
            runAll(threads, opened, given, Integer.parseInt(given.get("warm")));
            long started = System.nanoTime();
            for (int committed : runAll(threads, opened, given, Integer.parseInt(given.get("count")))) {
                System.out.println("committed " + committed);
            }
            System.out.println("milliseconds " + (System.nanoTime() - started) / 1_000_000);
        } finally {
            threads.shutdownNow();
        }
        for (KafkaProducer<String, String> producer : opened) {
            producer.close();
        }
    }

    private static List<Integer> runAll(
            ExecutorService threads, List<KafkaProducer<String, String>> opened, Map<String, String> given, int count)
            throws Exception {
        List<Future<Integer>> results = new ArrayList<>();
        for (int index = 0; index < opened.size(); index++) {
            int partition = index;
            Callable<Integer> loop = () -> run(opened.get(partition), given, partition, count);
            results.add(threads.submit(loop));
        }
        List<Integer> committed = new ArrayList<>();
        for (Future<Integer> result : results) {
            committed.add(result.get());
        }
        return committed;
    }

    private static Map<String, Object> settings(Map<String, String> given, int index) {
        return Map.of(
                "bootstrap.servers", given.get("bootstrap"),
                "transactional.id", given.get("id") + "-" + index,
                "key.serializer", StringSerializer.class,
                "value.serializer", StringSerializer.class);
    }

    private static int run(
            KafkaProducer<String, String> producer, Map<String, String> given, int partition, int count) {
        int abort = Integer.parseInt(given.get("abort"));
        boolean flush = Boolean.parseBoolean(given.get("flush"));
        int committed = 0;
        for (int number = 0; number < count; number++) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(given.get("topic"), partition, null, Integer.toString(number)));
            // Without this the client's own race ends the loop now and then, on any broker: its sender looks whether
            // records are unsent, then takes the next request, and where the send and the commit fall between the two,
            // EndTxn goes out and its batch does not. The coordinator has no transaction then: INVALID_TXN_STATE.
            // Seen with flush=false, client 4.3, two busy cores, runs that ended so: one producer with 52,000
            // transactions, none on either broker; 8 producers with 2,000 each, 1 of 14 on Moldau and 0 of 6 on Apache
            // Kafka 4.3; 16 with 150 each, 4 of 60 and 2 of 60 (no batch of the transaction had come, in all 4). With a
            // pause of 1 ms put between the look and the taking, each of 3 runs on each broker ended within three
            // transactions; with the flush as well, 3,000 went through on both.
            // One producer is not safe from it either: on Moldau, on two cores with a load of ten, 5 of 110 runs of 3,000
            // ended so, and 2 more went through with a record too many: the abort had gone out before its batch, and the
            // client put the next transaction's record into the same batch, which was committed with it.
            if (flush) {
                producer.flush();
            }
            if (abort > 0 && number % abort == abort - 1) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
                committed++;
            }
        }
        return committed;
    }
}
