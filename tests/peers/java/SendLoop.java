import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer with acks=all that sends "0", "1", … without waiting for answers, until its standard input
 * ends.
 *
 * <p>Arguments: name=value of bootstrap, topic, pause (microseconds between two records), and any setting of the
 * producer. Prints "acked PARTITION OFFSET VALUE" for each record that is acknowledged and "failed VALUE REASON" for each
 * that is given up. A line of input is a question: it prints "longest MILLISECONDS" between two acknowledgements since
 * the last one.
 */
public final class SendLoop {
    private static final Gaps gaps = new Gaps();
    private static volatile boolean over = false;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> own = new HashMap<>(Map.of("pause", "1000"));
        Map<String, Object> settings = new HashMap<>(Map.of(
                "acks", "all",
                "enable.idempotence", "true",
                "key.serializer", StringSerializer.class,
                "value.serializer", StringSerializer.class));
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            if (pair[0].contains(".")) {
                settings.put(pair[0], pair[1]);
            } else {
                own.put(pair[0], pair[1]);
            }
        }
        settings.put("bootstrap.servers", own.get("bootstrap"));
        Thread watch = new Thread(SendLoop::untilInputEnds);
        watch.setDaemon(true);
        watch.start();
        long pause = 1000L * Long.parseLong(own.get("pause"));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (long number = 0; !over; number++) {
                String value = Long.toString(number);
                String key = Long.toString(number % 97);
                producer.send(new ProducerRecord<>(own.get("topic"), key, value), (place, problem) -> {
                    if (problem == null) {
                        gaps.acknowledged();
                        System.out.println("acked " + place.partition() + " " + place.offset() + " " + value);
                    } else {
                        System.out.println("failed " + value + " " + problem);
                    }
                    System.out.flush();
                });
                LockSupport.parkNanos(pause);
            }
        }
    }

    private static void untilInputEnds() {
        try {
            for (int read = System.in.read(); read >= 0; read = System.in.read()) {
                if (read == '\n') {
                    System.out.println("longest " + gaps.longest.getAndSet(0) / 1_000_000);
                    System.out.flush();
                }
            }
        } catch (java.io.IOException ended) {
            // the same to us
        }
        over = true;
    }

    private static final class Gaps {
        final AtomicLong longest = new AtomicLong();
        private long last = 0;

        synchronized void acknowledged() {
            long now = System.nanoTime();
            if (last != 0) {
                longest.accumulateAndGet(now - last, Math::max);
            }
            last = now;
        }
    }
}
