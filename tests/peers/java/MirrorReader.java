import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** What Java's own client for mirrored clusters finds: BOOTSTRAP SOURCE GROUP. */
public class MirrorReader {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", arguments[0]);
        Duration timeout = Duration.ofSeconds(20);
        System.out.println("upstream " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(properties)));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(properties)));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(properties, arguments[1]));
        Map<TopicPartition, OffsetAndMetadata> offsets =
            RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], timeout);
        Map<String, Long> sorted = new TreeMap<>();
        offsets.forEach((place, offset) -> sorted.put(place.toString(), offset.offset()));
        System.out.println("offsets " + sorted);
        properties.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(java.util.List.of(new TopicPartition("heartbeats", 0)));
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(timeout)) {
                Heartbeat beat = Heartbeat.deserializeRecord(record);
                System.out.println("heartbeat " + beat.sourceClusterAlias() + " " + beat.targetClusterAlias());
                break;
            }
        }
    }
}
