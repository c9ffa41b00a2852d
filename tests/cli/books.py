"""The commands that the two Kafka books print, word for word, and what becomes of each here.

Lines that only prepare (copy a file, unpack an archive) and programs that are not Kafka's stand here too, so that
nothing is left out unseen.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Printed:
    """A command of the books that runs here as printed: before it, these; afterwards these words are on the screen."""

    section: str
    command: str
    shows: str = ""
    before: tuple[str, ...] = ()
    stdin: str = ""
    code: int = 0


ZOOKEEPER = "--zookeeper localhost:2181"
HELLO = f"bin/kafka-topics.sh {ZOOKEEPER} --create --topic helloworld --partitions 3 --replication-factor 1"
MY_TOPIC = f"kafka-topics.sh {ZOOKEEPER} --create --topic my_test_topic --partitions 2 --replication-factor 1"
TEST = f"kafka-topics.sh {ZOOKEEPER} --create --topic test"
TYPE_HELLO = "bin/kafka-console-producer.sh --broker-list localhost:9092 --topic helloworld"

GENERATE = (
    "kafka-reassign-partitions.sh --zookeeper localhost:2181 --generate --topics-to-move-json-file topics.json "
    "--broker-list 0,1,2"
)
EXECUTE = "kafka-reassign-partitions.sh --zookeeper localhost:2181 --execute --reassignment-json-file plan.json"
VERIFY = "kafka-reassign-partitions.sh --zookeeper localhost:2181 --verify --reassignment-json-file plan.json"
ELECTION = "kafka-preferred-replica-election.sh --zookeeper localhost:2181"
# Their content is lost in the book's text.
TOPICS_FILE = """echo '{"version":1,"topics":[{"topic":"test"}]}' > topics.json"""
PLAN_FILE = """echo '{"version":1,"partitions":[{"topic":"test","partition":0,"replicas":[1]}]}' > plan.json"""

RUN_AS_PRINTED = (
    # One broker cannot hold three replicas: the answer is Apache Kafka's own.
    Printed(
        "B2",
        f"bin/kafka-topics.sh {ZOOKEEPER} --create --topic helloworld --partitions 3 --replication-factor 3",
        "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered",
        code=1,
    ),
    Printed("B2", HELLO, "Created topic helloworld."),
    Printed("B2", f"bin/kafka-topics.sh {ZOOKEEPER} --list", "helloworld", before=(HELLO,)),
    Printed(
        "B2",
        f"bin/kafka-topics.sh --describe {ZOOKEEPER} --topic helloworld",
        "Topic: helloworld\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1",
        before=(HELLO,),
    ),
    Printed("B2", TYPE_HELLO, before=(HELLO,), stdin="hello world\n"),
    Printed(
        "B2",
        "bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic helloworld --from-beginning",
        "hello world",
        before=(HELLO, TYPE_HELLO),
    ),
    Printed(
        "B3",
        "bin/kafka-console-consumer --bootstrap-server localhost:9092 --from-beginning --topic connect-test "
        "--new-consumer",
        "test 2",
        before=("kafka-console-producer.sh --broker-list localhost:9092 --topic connect-test",),
        stdin="test 1\ntest 2\n",
    ),
    Printed("B10", f"./kafka-topics.sh {ZOOKEEPER} --describe --under-replicated-partitions", before=(HELLO,)),
    Printed("B11", f"kafka-topics.sh {ZOOKEEPER} --list", "my_test_topic", before=(MY_TOPIC,)),
    Printed("B11", f"kafka-topics.sh {ZOOKEEPER} --alter --topic my_test_topic --partitions 3", before=(MY_TOPIC,)),
    Printed(
        "B11",
        f"kafka-topics.sh {ZOOKEEPER} --describe --topic my_test_topic",
        "PartitionCount: 2\tReplicationFactor: 1",
        before=(MY_TOPIC,),
    ),
    Printed("B11", f"kafka-topics.sh {ZOOKEEPER} --delete --topic my_test_topic", before=(MY_TOPIC,)),
    Printed("B11", "kafka-console-producer.sh --broker-list localhost:9092 --topic test", stdin="into a new topic\n"),
    Printed(
        "B12",
        f"kafka-configs.sh {ZOOKEEPER} --alter --entity-type topics --entity-name test --add-config segment.ms=60000",
        "Completed updating config for topic test.",
        before=(TEST,),
    ),
    Printed(
        "B12",
        f"kafka-configs.sh {ZOOKEEPER} --alter --entity-type topics --entity-name test --delete-config segment.ms",
        "Completed updating config for topic test.",
        before=(TEST,),
    ),
    Printed(
        "B12",
        "bin/kafka-run-class.sh kafka.tools.DumpLogSegments --print-data-log "
        "--files logs/test-0/00000000000000000000.log",
        "payload: into a new topic",
        before=("kafka-console-producer.sh --broker-list localhost:9092 --topic test",),
        stdin="into a new topic\n",
    ),
    Printed(
        "B21",
        "bin/kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group test-consumer",
        "test-consumer   helloworld      0",
        before=(
            HELLO.replace("--partitions 3", "--partitions 1"),
            TYPE_HELLO,
            (
                "bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic helloworld --from-beginning "
                "--group test-consumer"
            ),
        ),
        stdin="hello world\n",
    ),
    Printed(
        "CLI-01",
        "kafka-topics.sh --zookeeper localhost:2181/chroot --create --topic my-topic --partitions 20 "
        "--replication-factor 1 --config retention.ms=1000",
        "Created topic my-topic.",
    ),
    Printed(
        "CLI-02",
        f"kafka-topics.sh {ZOOKEEPER} --alter --topic my-topic --partitions 40",
        before=(f"kafka-topics.sh {ZOOKEEPER} --create --topic my-topic --partitions 20 --replication-factor 1",),
    ),
    Printed(
        "CLI-05",
        "kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic helloworld --from-beginning "
        "--formatter kafka.tools.DefaultMessageFormatter --property print.key=true --property print.value=true "
        "--property key.deserializer=org.apache.kafka.common.serialization.StringDeserializer "
        "--property value.deserializer=org.apache.kafka.common.serialization.StringDeserializer",
        "null\thello world",
        before=(HELLO, TYPE_HELLO),
        stdin="hello world\n",
    ),
    Printed("TP-25", GENERATE, "Proposed partition reassignment configuration", before=(TEST, TOPICS_FILE)),
    Printed("TP-26", EXECUTE, "Successfully started partition reassignment for test-0", before=(TEST, PLAN_FILE)),
    Printed("TP-27", VERIFY, "Reassignment of partition test-0 is completed.", before=(TEST, PLAN_FILE, EXECUTE)),
    Printed("TP-30", ELECTION, before=(TEST,)),
    Printed("HW-14", "kafka-topics.sh --create", "--bootstrap-server must be specified", code=1),
    Printed("HW-14", f"kafka-topics.sh --create {ZOOKEEPER}", 'Missing required argument "[topic]"', code=1),
    Printed("HW-14", "kafka-topics.sh", "Create, delete, describe, or change a topic.", code=1),
)

# Their subject is still missing; `moldau.cli.kafka.catalogue` says what of it.
STILL_MISSING = ("kafka-streams-application-reset.sh",)

# Run by tests of their own: tests/faults/test_connect_crashes.py and test_connect_group.py.
FILES_THROUGH_CONNECT = (
    "bin/connect-standalone config/kafka/connect-standalone.properties config/connect-file-source.properties "
    "config/connect-file-sink.properties"
)
CONNECT_DISTRIBUTED = "connect-distributed.sh config/connect-distributed.properties"

# The same program with other files. What stands in those is run on a worker in the tests' process:
# tests/connect/test_files.py and test_registered.py.
CONNECT_LIKEWISE = (
    "bin/connect-standalone.sh config/connect-standalone.properties config/connect-file-source.properties",
    (
        "bin/connect-standalone etc/schema-registry/connect-avro-standalone.properties "
        "etc/kafka-connect-jdbc/source-quickstart-sqlite.properties"
    ),
)
CONNECT_TOOLS = (FILES_THROUGH_CONNECT, CONNECT_DISTRIBUTED, *CONNECT_LIKEWISE)

# Run by tests of their own, in tests/cli/test_books.py.
STARTS_AND_STOPS = (
    "bin/kafka-server-start.sh config/server0.properties",
    "bin/kafka-server-start.sh config/server1.properties",
    "bin/kafka-server-start.sh config/server2.properties",
    "JMX_PORT=9990 bin/kafka-server-start.sh config/server0.properties",
    "kafka-server-stop.sh",
)

# Run by tests of their own, in tests/cli/test_zookeeper_tools.py.
ZOOKEEPER_TOOLS = ("bin/zookeeper-server-start.sh config/zookeeper.properties", "zookeeper-shell.sh localhost:2181")

# Run by a test of its own, in tests/cli/test_acls.py: it needs a broker with an authorizer.
ACCESS_RULES = ("kafka-acls --add --topic clueful_secrets",)

# Run by a test of its own, in tests/cli/test_mirror_tools.py.
MIRROR_TOOLS = (
    (
        "bin/kafka-mirror-maker.sh --consumer.config source.properties --producer.config target.properties "
        "--whitelist test-topic"
    ),
)

# Run by a test of its own, in tests/clients/rest/test_service.py.
REST_PROXY = ("./bin/kafka-rest-start ./etc/kafka-rest/kafka-rest.properties",)

# Programs that Kafka does not bring.
NOT_OF_KAFKA = (
    "tar", "cd", "cp", "jps", "echo", "cat", "sqlite3", "java", "kafkacat", "curl", "export", "keytool", "openssl",
    "systemctl", "mvn", "avro-tools", "logrotate",
)  # fmt: skip

# Every program that the index of the spec (section 18) and its rows CLI-01 to CLI-08 name.
NAMED_BY_THE_INDEX = (
    "kafka-topics.sh", "kafka-console-producer.sh", "kafka-console-consumer.sh", "connect-standalone.sh", "sqlite3",
    "zookeeper-shell.sh", "zookeeper-server-start.sh", "kafka-server-start.sh", "kafka-server-stop.sh",
    "kafka-mirror-maker.sh", "kafka-run-class.sh", "kafka-configs.sh", "kafka-reassign-partitions.sh",
    "kafka-preferred-replica-election.sh", "kafka-consumer-groups.sh", "kafka-acls", "kafkacat", "kafka-rest-start",
    "curl", "systemctl", "keytool", "openssl", "mvn", "avro-tools", "jps", "logrotate", "connect-distributed.sh",
    "kafka-streams-application-reset.sh",
)  # fmt: skip
