import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import java.util.List;
import org.h2.mvstore.MVStore;

/**
 * A server that speaks MongoDB's protocol, with its data in a file: DocumentServer FILE PORT [oplog]. It ends with its
 * standard input, and then everything is on the disk. With an oplog it has change streams.
 */
public final class DocumentServer {
    /** Drivers of today refuse the older version that the server tells by itself. */
    private static final int OLDEST_VERSION_OF_DRIVERS = 9;

    private record Version() implements MongoVersion {
        public List<Integer> getVersionArray() {
            return ServerVersion.MONGO_5_0.getVersionArray();
        }

        public int getWireVersion() {
            return OLDEST_VERSION_OF_DRIVERS;
        }
    }

    public static void main(String[] arguments) throws Exception {
        H2Backend backend = new H2Backend(MVStore.open(arguments[0]));
        backend.version(new Version());
        MongoServer server = new MongoServer(backend);
        if (arguments.length > 2) {
            server.enableOplog();
        }
        server.bind("127.0.0.1", Integer.parseInt(arguments[1]));
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
        server.shutdownNow();
    }
}
