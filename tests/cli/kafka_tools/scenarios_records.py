"""Records in and out: the console tools, the measuring and the verifiable ones."""

from __future__ import annotations

from tests.cli.kafka_tools.scenario import Step, scenario

NO_OP = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"
PRINT_ALL = (
    "--formatter-property print.key=true --formatter-property print.headers=true --formatter-property "
    "print.offset=true --formatter-property print.partition=true"
)
SERIALIZATION = "org.apache.kafka.common.serialization."


def produce(arguments: str, stdin: str = "", *, servers: bool = True) -> Step:
    return Step("kafka-console-producer", arguments, stdin, servers=servers)


def consume(arguments: str, *, servers: bool = True) -> Step:
    return Step("kafka-console-consumer", arguments, servers=servers)


scenario(
    "console",
    produce("--topic lines", "first line\nsecond line\n\nlast without end"),
    consume("--topic lines --from-beginning --max-messages 4"),
    consume("--topic lines --partition 0 --offset 2 --max-messages 2"),
    consume("--topic lines --partition 0 --offset earliest --max-messages 1"),
    consume("--topic lines --timeout-ms 3000"),
    consume(f"--topic lines --from-beginning --max-messages 2 {PRINT_ALL}"),
    produce(
        "--topic keyed --reader-property parse.key=true --reader-property key.separator=: --sync",
        "a:1\nb:2\na:3:4\n",
    ),
    consume("--topic keyed --from-beginning --max-messages 3 --property print.key=true"),
    produce(
        "--topic full --reader-property parse.key=true --reader-property parse.headers=true "
        "--reader-property null.marker=NULL --compression-codec lz4",
        "h1:v1,h2:NULL\tk\tvalue\nNULL\tNULL\tNULL\n",
    ),
    consume(f"--topic full --from-beginning --max-messages 2 {PRINT_ALL}"),
    consume(
        f"--topic full --from-beginning --max-messages 2 {PRINT_ALL} --formatter-property null.literal=- "
        "--formatter-property key.separator=| --formatter-property headers.separator=;"
    ),
    consume("--topic full --from-beginning --max-messages 2 --formatter-property print.value=false"),
    consume("--topic full --partition 0 --offset 0 --max-messages 1 --formatter-property print.epoch=true"),
    consume("--include 'f.*|none' --from-beginning --max-messages 2"),
    consume("--topic lines --group readers --from-beginning --max-messages 2"),
    consume("--topic lines --group readers --max-messages 2"),
    consume(f"--topic lines --from-beginning --max-messages 1 --value-deserializer {SERIALIZATION}StringDeserializer"),
    consume(f"--topic lines --from-beginning --max-messages 1 --formatter {NO_OP}"),
    produce("--topic lines --property parse.key=false --producer-property linger.ms=5", "more\n"),
    consume("--topic lines --partition 0 --offset 4 --max-messages 1 --isolation-level read_committed"),
)

scenario(
    "console-refused",
    produce("", servers=False),
    produce("--topic lines", servers=False),
    produce("--bogus"),
    produce("--sync"),
    produce("--topic lines --reader-property parse.key=true", "no key here\n"),
    produce("--topic lines --property a=b --reader-property c=d"),
    produce("--topic lines --producer.config a --command-config b"),
    produce("--topic lines --batch-size x", "a\n"),
    consume("", servers=False),
    consume("--bogus"),
    consume("--topic lines", servers=False),
    consume("--from-beginning"),
    consume("--topic a --include b"),
    consume("--topic lines --offset 3"),
    consume("--topic lines --partition 0 --offset -5"),
    consume("--topic lines --partition 0 --offset soon"),
    consume("--topic lines --partition 0 --from-beginning --offset 3"),
    consume("--topic lines --partition 0 --group g"),
    consume("--include a --partition 0"),
    consume("--topic lines --from-beginning --command-property auto.offset.reset=latest"),
    consume("--topic lines --group a --command-property group.id=b"),
    consume("--topic lines --partition x"),
)

scenario(
    "verifiable",
    Step(
        "kafka-verifiable-producer",
        "--topic numbers --max-messages 3 --repeating-keys 2 --value-prefix 7",
        figures=True,
    ),
    Step("kafka-verifiable-consumer", "--topic numbers --group-id verifiers --max-messages 3 --verbose", figures=True),
    Step("kafka-verifiable-producer", "--max-messages 3"),
    Step("kafka-verifiable-producer", "--topic numbers --acks 7"),
    Step("kafka-verifiable-producer", "--topic numbers --bogus"),
    Step("kafka-verifiable-consumer", "--topic numbers"),
    Step("kafka-verifiable-consumer", "--topic numbers --group-id g --max-messages many"),
)

scenario(
    "measuring",
    Step(
        "kafka-producer-perf-test", "--topic perf --num-records 500 --record-size 100 --throughput -1", figures=True,
    ),
    Step(
        "kafka-producer-perf-test",
        "--topic perf --num-records 100 --payload-monotonic --throughput 1000 --producer-props acks=1 "
        "--warmup-records 50",
        figures=True,
    ),
    Step(
        "kafka-producer-perf-test",
        "--topic perf --num-records 20 --payload-file {files}/payloads.txt --throughput -1 --transactional-id t",
        figures=True,
    ),
    Step("kafka-consumer-perf-test", "--topic perf --num-records 500 --timeout 60000", figures=True),
    Step("kafka-consumer-perf-test", "--topic perf --messages 300 --hide-header --timeout 60000", figures=True),
    Step("kafka-e2e-latency", "--topic latency --num-records 5 --producer-acks all --record-size 10", figures=True),
    Step("kafka-e2e-latency", "{servers} latency 5 1 100", servers=False, figures=True),
    Step("kafka-producer-perf-test", "--topic perf"),
    Step("kafka-producer-perf-test", "--topic perf --num-records 10 --throughput -1"),
    Step("kafka-producer-perf-test", "--topic perf --num-records 0 --record-size 1 --throughput -1"),
    Step("kafka-producer-perf-test", "--topic perf --num-records x --record-size 1 --throughput -1"),
    Step("kafka-producer-perf-test", "--topic perf --num-records 1 --record-size 1 --throughput -1", servers=False),
    Step("kafka-consumer-perf-test", "--topic perf"),
    Step("kafka-consumer-perf-test", "--num-records 5"),
    Step("kafka-consumer-perf-test", "--topic perf --num-records 5 --reporting-interval 0"),
    Step("kafka-e2e-latency", "a b", servers=False),
    Step("kafka-e2e-latency", "--topic latency --num-records 5 --producer-acks 0 --record-size 10"),
    Step("kafka-e2e-latency", "--topic latency --num-records 0 --producer-acks 1 --record-size 10"),
    files={"payloads.txt": "one\ntwo\nthree\n"},
)  # fmt: skip
