import java.io.PrintStream;
import org.codelibs.opensearch.runner.OpenSearchRunner;

/** One node of OpenSearch: SearchServer FOLDER PORT. It ends with its standard input. */
public final class SearchServer {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out; // OpenSearch puts its own in the place of it
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("http.port", arguments[1]);
            settings.put("discovery.type", "single-node");
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        });
        runner.build(OpenSearchRunner.newConfigs().basePath(arguments[0]).numOfNode(1).useLogger());
        out.println("ready");
        while (System.in.read() >= 0) {
        }
        runner.close();
    }
}
