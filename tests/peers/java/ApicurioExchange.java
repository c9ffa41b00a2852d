// Apicurio's serializers and deserializers for Java in Apache Kafka's producer and consumer, over a registry with
// Confluent's API.
//
// Left alone they speak Apicurio's own API (their RegistryClientFacadeFactory knows /apis/registry/v2 and v3, nothing
// else), so `Confluent` below is the client that they are given. The schemas that they make and read, the order in
// which they register what these refer to, and the bytes of a value (an id of four bytes, message indexes) are theirs.
//
// ApicurioExchange KIND registry bootstrap topic folder: reads `topic`-in, writes `topic`-out and reads it again, and
// tells what it saw. KIND is avro, json (`folder` has orders.json) or protobuf (`folder` has shop.bin, the descriptors
// of leaf.proto, orders.proto and stamped.proto).

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.TextFormat;
import com.google.protobuf.TimestampProto;
import io.apicurio.registry.resolver.client.RegistryArtifactReference;
import io.apicurio.registry.resolver.client.RegistryClientFacade;
import io.apicurio.registry.resolver.client.RegistryVersionCoordinates;
import io.apicurio.registry.resolver.strategy.ArtifactReference;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.io.IOException;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

public class ApicurioExchange {
    static final String TEA = "{\"type\":\"record\",\"name\":\"Tea\",\"namespace\":\"shop\",\"fields\":["
        + "{\"name\":\"leaves\",\"type\":\"int\"}]}";
    static final String ORDER = "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop\",\"fields\":["
        + "{\"name\":\"tea\",\"type\":" + TEA + "}%s]}";
    static final String SUGAR = ",{\"name\":\"sugar\",\"type\":\"int\"}";

    /** What Apicurio's libraries ask of a registry, asked in Confluent's words. Ids of contents are its only ids. */
    static class Confluent implements RegistryClientFacade {
        private final HttpClient http = HttpClient.newHttpClient();
        private final ObjectMapper json = new ObjectMapper();
        private final String url;

        Confluent(String url) {
            this.url = url;
        }

        private JsonNode ask(String path, Object body) {
            try {
                HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
                if (body != null) {
                    request.header("Content-Type", "application/vnd.schemaregistry.v1+json");
                    request.POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(body)));
                }
                HttpResponse<String> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
                JsonNode found = json.readTree(answer.body());
                if (answer.statusCode() != 200) {
                    throw new Refused(found.path("error_code").asInt(), found.path("message").asText());
                }
                return found;
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(path, error);
            }
        }

        private static String subject(String name) {
            return "/subjects/" + URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
        }

        private JsonNode byId(long id) {
            return ask("/schemas/ids/" + id, null);
        }

        private JsonNode byVersion(String artifact, String version) {
            return ask(subject(artifact) + "/versions/" + (version == null ? "latest" : version), null);
        }

        private static List<RegistryArtifactReference> references(JsonNode schema) {
            List<RegistryArtifactReference> found = new ArrayList<>();
            schema.path("references").forEach(each -> found.add(RegistryArtifactReference.builder()
                .name(each.get("name").asText())
                .artifactId(each.get("subject").asText())
                .version(each.get("version").asText())
                .build()));
            return found;
        }

        private static RegistryVersionCoordinates coordinates(String group, JsonNode version) {
            long id = version.get("id").asLong();
            String artifact = version.get("subject").asText();
            return RegistryVersionCoordinates.create(id, id, group, artifact, version.get("version").asText());
        }

        private static Map<String, Object> body(String kind, String schema, Set<RegistryArtifactReference> references) {
            List<Map<String, Object>> named = references.stream().<Map<String, Object>>map(each -> Map.of(
                "name", each.getName(),
                "subject", each.getArtifactId(),
                "version", Integer.parseInt(each.getVersion())
            )).toList();
            return Map.of("schemaType", kind, "schema", schema, "references", named);
        }

        public String getSchemaByContentId(Long id) {
            return byId(id).get("schema").asText();
        }

        public String getSchemaByGlobalId(long id, boolean dereferenced) {
            return byId(id).get("schema").asText();
        }

        public String getSchemaByGAV(String group, String artifact, String version) {
            return byVersion(artifact, version).get("schema").asText();
        }

        public String getSchemaByContentHash(String hash) {
            throw new UnsupportedOperationException(hash);
        }

        public List<RegistryArtifactReference> getReferencesByContentId(long id) {
            return references(byId(id));
        }

        public List<RegistryArtifactReference> getReferencesByGlobalId(long id) {
            return references(byId(id));
        }

        public List<RegistryArtifactReference> getReferencesByGAV(String group, String artifact, String version) {
            return references(byVersion(artifact, version));
        }

        public List<RegistryArtifactReference> getReferencesByContentHash(String hash) {
            throw new UnsupportedOperationException(hash);
        }

        public List<RegistryVersionCoordinates> searchVersionsByContent(String schema, String kind,
                ArtifactReference reference, boolean canonical) {
            JsonNode found = ask(subject(reference.getArtifactId()), body(kind, schema, Set.of()));
            return List.of(coordinates(reference.getGroupId(), found));
        }

        public RegistryVersionCoordinates createSchema(String kind, String group, String artifact, String version,
                String ifExists, boolean canonical, String schema, Set<RegistryArtifactReference> references) {
            Map<String, Object> body = body(kind, schema, references);
            ask(subject(artifact) + "/versions", body);
            return coordinates(group, ask(subject(artifact), body));
        }

        public RegistryVersionCoordinates getVersionCoordinatesByGAV(String group, String artifact, String version) {
            return coordinates(group, byVersion(artifact, version));
        }

        public Object getClient() {
            return http;
        }
    }

    static class Refused extends RuntimeException {
        final int code;

        Refused(int code, String message) {
            super(message);
            this.code = code;
        }
    }

    /** Apicurio's reader skips the message indexes; which message it is it is told. */
    static class MessageReader extends ProtobufKafkaDeserializer<DynamicMessage> {
        private final String message;

        MessageReader(RegistryClientFacade registry, String message) {
            super(registry);
            this.message = message;
        }

        @Override
        public DynamicMessage deserialize(String topic, Headers headers, byte[] data) {
            ((ProtobufDeserializer<DynamicMessage>) delegatedDeserializer).setMessageTypeName(message);
            return super.deserialize(topic, headers, data);
        }
    }

    final Confluent registry;
    final String bootstrap;
    final String topic;
    final Path folder;

    ApicurioExchange(String registry, String bootstrap, String topic, String folder) {
        this.registry = new Confluent(registry);
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.folder = Path.of(folder);
    }

    static void tell(String what, Object value) {
        System.out.println(what + " " + value);
    }

    static Map<String, Object> settings(Object... more) {
        Map<String, Object> found = new HashMap<>(Map.of("apicurio.registry.auto-register", true));
        for (int place = 0; place < more.length; place += 2) {
            found.put((String) more[place], more[place + 1]);
        }
        return found;
    }

    static <S extends Serializer<?>> S writer(S serializer, boolean isKey, Object... more) {
        serializer.configure(settings(more), isKey);
        return serializer;
    }

    static <D extends Deserializer<?>> D reader(D deserializer, boolean isKey, Object... more) {
        deserializer.configure(settings(more), isKey);
        return deserializer;
    }

    Serializer<Object> keyWriter() {
        return writer(new AvroKafkaSerializer<>(registry), true);
    }

    Deserializer<Object> keyReader() {
        return reader(new AvroKafkaDeserializer<>(registry), true);
    }

    <V> void write(String end, Serializer<V> serializer, V value) throws Exception {
        Map<String, Object> client = Map.of("bootstrap.servers", bootstrap);
        try (KafkaProducer<Object, V> producer = new KafkaProducer<>(client, keyWriter(), serializer)) {
            producer.send(new ProducerRecord<>(topic + end, "key", value)).get();
        }
    }

    <V> ConsumerRecord<Object, V> first(String end, Deserializer<V> deserializer) {
        Map<String, Object> client = Map.of("bootstrap.servers", bootstrap);
        try (KafkaConsumer<Object, V> consumer = new KafkaConsumer<>(client, keyReader(), deserializer)) {
            List<TopicPartition> place = List.of(new TopicPartition(topic + end, 0));
            consumer.assign(place);
            consumer.seekToBeginning(place);
            while (true) {
                for (ConsumerRecord<Object, V> record : consumer.poll(Duration.ofSeconds(1))) {
                    return record;
                }
            }
        }
    }

    /** The registry's code, or the kind of Apicurio's own objection. */
    <V> String refusal(Serializer<V> serializer, V value) {
        try {
            serializer.serialize(topic + "-out", value);
            return "none";
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause instanceof Refused refused ? "" + refused.code : cause.getClass().getSimpleName();
        }
    }

    static GenericData.Record order(int leaves, String more) {
        Schema schema = new Schema.Parser().parse(String.format(ORDER, more));
        GenericData.Record tea = new GenericData.Record(schema.getField("tea").schema());
        tea.put("leaves", leaves);
        GenericData.Record found = new GenericData.Record(schema);
        found.put("tea", tea);
        if (!more.isEmpty()) {
            found.put("sugar", 1);
        }
        return found;
    }

    void avro() throws Exception {
        ConsumerRecord<Object, Object> given = first("-in", reader(new AvroKafkaDeserializer<>(registry), false));
        tell("in", given.key() + " " + given.value());
        AvroKafkaSerializer<Object> own = writer(new AvroKafkaSerializer<>(registry), false);
        write("-out", own, order(3, ""));
        ConsumerRecord<Object, Object> taken = first("-out", reader(new AvroKafkaDeserializer<>(registry), false));
        tell("out", taken.key() + " " + taken.value());
        tell("incompatible", refusal(writer(new AvroKafkaSerializer<>(registry), false), order(3, SUGAR)));
        AvroKafkaSerializer<Object> known = writer(new AvroKafkaSerializer<>(registry), false,
            "apicurio.registry.auto-register", false, "apicurio.registry.dereference-schema", true);
        tell("unknown", refusal(known, order(3, SUGAR)));
    }

    void json() throws Exception {
        tell("in", first("-in", reader(new JsonSchemaKafkaDeserializer<JsonNode>(registry), false)).value());
        ClassLoader loader = ApicurioExchange.class.getClassLoader();
        URL[] places = {folder.toUri().toURL()};
        Thread.currentThread().setContextClassLoader(new URLClassLoader(places, loader));
        JsonSchemaKafkaSerializer<Map<String, Object>> own = writer(new JsonSchemaKafkaSerializer<>(registry), false,
            "apicurio.registry.artifact.schema.location", "orders.json");
        write("-out", own, Map.of("leaves", 3));
        tell("out", first("-out", reader(new JsonSchemaKafkaDeserializer<JsonNode>(registry), false)).value());
        JsonSchemaKafkaSerializer<Map<String, Object>> latest = writer(new JsonSchemaKafkaSerializer<>(registry), false,
            "apicurio.registry.auto-register", false, "apicurio.registry.find-latest", true,
            "apicurio.registry.artifact.artifact-id", topic + "-in-value");
        write("-latest", latest, Map.of("tea", Map.of("leaves", 4)));
        tell("broken", refusal(latest, Map.of("tea", Map.of("leaves", "many"))));
    }

    /** The file with Stamped, as Python made it, and behind it that with Order and its Line. */
    FileDescriptor stamped() throws Exception {
        FileDescriptorSet files = FileDescriptorSet.parseFrom(Files.readAllBytes(folder.resolve("shop.bin")));
        FileDescriptor leaf = FileDescriptor.buildFrom(files.getFile(0), new FileDescriptor[0]);
        FileDescriptor orders = FileDescriptor.buildFrom(files.getFile(1), new FileDescriptor[] {leaf});
        FileDescriptor[] imported = {orders, TimestampProto.getDescriptor()};
        return FileDescriptor.buildFrom(files.getFile(2), imported);
    }

    static DynamicMessage message(Descriptor of, String text) throws Exception {
        DynamicMessage.Builder found = DynamicMessage.newBuilder(of);
        TextFormat.merge(text, found);
        return found.build();
    }

    String text(String end) {
        MessageReader reader = reader(new MessageReader(registry, "Order"), false,
            "apicurio.registry.serde.read-indexes", true, "apicurio.registry.serde.read-type-ref", false,
            "apicurio.registry.deserializer.value.return-class", DynamicMessage.class);
        return TextFormat.printer().emittingSingleLine(true).printToString(first(end, reader).value()).strip();
    }

    ProtobufKafkaSerializer<DynamicMessage> messageWriter(boolean validates) {
        return writer(new ProtobufKafkaSerializer<>(registry), false,
            "apicurio.registry.serde.send-indexes", true, "apicurio.registry.serde.send-type-ref", false,
            "apicurio.registry.serde.validation-enabled", validates);
    }

    void protobuf() throws Exception {
        tell("in", text("-in"));
        Descriptor stamped = stamped().findMessageTypeByName("Stamped");
        Descriptor order = stamped.findFieldByName("order").getMessageType();
        String green = "lines { leaf { name: 'green' } count: 3 }";
        write("-out", messageWriter(true), message(order, green));
        tell("out", text("-out"));
        // Its check looks for messages of the file's top level alone.
        Descriptor line = order.findNestedTypeByName("Line");
        write("-line", messageWriter(false), message(line, "leaf { grams: 5 } count: 2"));
        write("-stamped", messageWriter(true), message(stamped, "order { " + green + " } at { seconds: 9 }"));
    }

    public static void main(String[] given) throws Exception {
        ApicurioExchange exchange = new ApicurioExchange(given[1], given[2], given[3], given[4]);
        switch (given[0]) {
            case "avro" -> exchange.avro();
            case "json" -> exchange.json();
            case "protobuf" -> exchange.protobuf();
            default -> throw new IllegalArgumentException(given[0]);
        }
        tell("done", given[0]);
    }
}
