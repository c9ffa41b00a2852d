import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A Kafka Streams application that counts by key, exactly once: each record of the input becomes one of the output, its
 * key's count so far.
 *
 * <p>Arguments: name=value of bootstrap, input, output, id, state (a folder), threads. Runs until it is killed; ends
 * with code 1 if the application fails.
 */
public final class StreamsCount {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            given.put(pair[0], pair[1]);
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("application.id", given.get("id"));
        settings.put("state.dir", given.get("state"));
        settings.put("num.stream.threads", given.get("threads"));
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "50");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", "6000");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(given.get("input"), Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(given.get("output"), Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
        streams.start();
        new CountDownLatch(1).await();
    }
}
