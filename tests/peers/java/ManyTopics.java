import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * An administrator that creates many topics, describes them and deletes them, one request for every hundred.
 *
 * <p>Arguments: name=value of bootstrap, topic (the prefix of the names), count, partitions (of each). Prints
 * "created", "described" and "deleted" with the milliseconds that each took; what is created is complete when every
 * topic is in the list of topics, what is deleted when none is.
 */
public final class ManyTopics {
    private static final int AT_ONCE = 100;
    private static final long LOOK_AGAIN_MS = 5;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> own = new java.util.HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            own.put(pair[0], pair[1]);
        }
        String prefix = own.get("topic") + "-";
        int count = Integer.parseInt(own.get("count"));
        int partitions = Integer.parseInt(own.get("partitions"));
        List<List<String>> lots = new ArrayList<>();
        for (int start = 0; start < count; start += AT_ONCE) {
            List<String> lot = new ArrayList<>();
            for (int number = start; number < Math.min(count, start + AT_ONCE); number++) {
                lot.add(prefix + number);
            }
            lots.add(lot);
        }
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", own.get("bootstrap")))) {
            tell("created", () -> {
                for (List<String> lot : lots) {
                    admin.createTopics(lot.stream().map(name -> new NewTopic(name, partitions, (short) 1)).toList())
                            .all().get();
                }
                return await(admin, prefix, count);
            });
            tell("described", () -> {
                long found = 0;
                for (List<String> lot : lots) {
                    found += admin.describeTopics(lot).allTopicNames().get().values().stream()
                            .mapToLong(topic -> topic.partitions().size()).sum();
                }
                if (found != (long) count * partitions) {
                    throw new IllegalStateException(found + " partitions were described");
                }
                return null;
            });
            tell("deleted", () -> {
                for (List<String> lot : lots) {
                    admin.deleteTopics(lot).all().get();
                }
                return await(admin, prefix, 0);
            });
        }
    }

    private static Void await(Admin admin, String prefix, long wanted) throws Exception {
        while (admin.listTopics().names().get().stream().filter(name -> name.startsWith(prefix)).count() != wanted) {
            Thread.sleep(LOOK_AGAIN_MS);
        }
        return null;
    }

    private static void tell(String what, Callable<Void> action) throws Exception {
        long began = System.nanoTime();
        action.call();
        System.out.println(what + " " + (System.nanoTime() - began) / 1_000_000);
    }
}
