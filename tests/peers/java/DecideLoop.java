import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions one behind the other without a pause, until standard input ends: "0", "1", … each into both partitions of
 * a topic, every fifth aborted.
 *
 * <p>Arguments: name=value of bootstrap, topic, id (the transactional id), and any setting of the producer. Prints
 * "committed VALUE" or "aborted VALUE" for each; an error that the client does not settle by itself ends the program.
 */
public final class DecideLoop {
    private static final int PARTITIONS = 2;
    private static final int ABORTED = 5;
    private static volatile boolean over = false;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> own = new HashMap<>();
        Map<String, Object> settings = new HashMap<>(
                Map.of("key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class));
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            if (pair[0].contains(".")) {
                settings.put(pair[0], pair[1]);
            } else {
                own.put(pair[0], pair[1]);
            }
        }
        settings.put("bootstrap.servers", own.get("bootstrap"));
        settings.put("transactional.id", own.get("id"));
        Thread watch = new Thread(DecideLoop::untilInputEnds);
        watch.setDaemon(true);
        watch.start();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            for (long number = 0; !over; number++) {
                String value = Long.toString(number);
                producer.beginTransaction();
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    producer.send(new ProducerRecord<>(own.get("topic"), partition, null, value));
                }
                // As in TransactionLoop: without it a race of the client's own ends the loop now and then.
                producer.flush();
                if (number % ABORTED == ABORTED - 1) {
                    producer.abortTransaction();
                    System.out.println("aborted " + value);
                } else {
                    producer.commitTransaction();
                    System.out.println("committed " + value);
                }
                System.out.flush();
            }
        }
    }

    private static void untilInputEnds() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException ended) {
            // the same to us
        }
        over = true;
    }
}
