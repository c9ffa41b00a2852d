import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source connector for Kafka Connect that counts: "0", "1", … up to a limit, a few in each poll, and goes on where its
 * source offset says. With a file of settings as its argument the program is Connect's distributed worker.
 */
public final class NumberSource extends SourceConnector {
    private Map<String, String> settings = Map.of();

    public static void main(String[] arguments) {
        ConnectDistributed.main(arguments);
    }

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return NumberTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(settings);
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "written to")
                .define("count", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "how many numbers");
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public String version() {
        return "1";
    }

    public static final class NumberTask extends SourceTask {
        private static final Map<String, String> SOURCE = Map.of("source", "numbers");
        private static final int AT_ONCE = 5;
        private String topic;
        private int count;
        private int next;

        @Override
        public void start(Map<String, String> given) {
            topic = given.get("topic");
            count = Integer.parseInt(given.get("count"));
            Map<String, Object> known = context.offsetStorageReader().offset(SOURCE);
            next = known == null ? 0 : ((Number) known.get("next")).intValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (next >= count) {
                Thread.sleep(100);
                return null;
            }
            List<SourceRecord> records = new ArrayList<>();
            for (int made = 0; made < AT_ONCE && next < count; made++) {
                String value = Integer.toString(next++);
                records.add(new SourceRecord(SOURCE, Map.of("next", next), topic, 0, Schema.STRING_SCHEMA, value));
            }
            return records;
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
