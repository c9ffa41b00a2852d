/* Load for any Kafka broker, through librdkafka, cheap enough that the broker is what is measured.
 *
 *     load produce  as fast as the broker takes it; with --rate at a fixed rate, with latencies
 *     load consume  everything there is, from the beginning, without a group
 *     load sync     producers that wait for the answer to each message before they send the next
 *     load idle     connections that ask ApiVersions once and then stay open until stdin is closed
 *     load version  the version of librdkafka
 *
 * The result is one line of JSON on stdout. The exit code is 0 if every message was delivered.
 * Times are in seconds, latencies in microseconds. Client CPU covers the measured span only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <librdkafka/rdkafka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SETTINGS = 32, CONSUMED_AT_ONCE = 2000, POLL_EVERY = 256, PATIENCE_MS = 120000, PATIENCE_S = 180 };

static struct {
    const char *brokers, *topic, *acks, *codec, *linger_ms;
    long count, rate;
    int size, partitions, threads;
    const char *settings[MAX_SETTINGS];
    int settings_count;
} options = {
    .brokers = "127.0.0.1:9092", .topic = "bench", .acks = "1", .codec = "none", .linger_ms = "5",
    .count = 1000000, .size = 100, .partitions = 1, .threads = 1,
};

/* One producer. `waits[i]` holds when message i was due, and after its delivery how long that took. */
struct producer {
    rd_kafka_t *kafka;
    rd_kafka_topic_t *topic;
    double *waits;
    long delivered, failed;
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(2);
}

/* -- time ------------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int compare_doubles(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_latencies(double *waits, long count) {
    qsort(waits, count, sizeof *waits, compare_doubles);
    printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f", waits[count / 2] * 1e6,
           waits[count * 99 / 100] * 1e6, waits[count * 999 / 1000] * 1e6, waits[count - 1] * 1e6);
}

/* -- payloads: random slices of JSON-like text, which compresses about as well as real events do ------------------ */

static char pool[4 << 20];
static const char *const WORDS[] = {"\"user\":",      "\"click\",", "\"temp\":21.5,", "\"ts\":1700000",
                                    "{\"id\":",       "}\n",        "\"sensor\":",    "0.731,"};
enum { LONGEST_WORD_AND_NUMBER = 32 };

static unsigned next_random(unsigned *state) {
    return *state = *state * 1103515245u + 12345u;
}

static void fill_pool(void) {
    unsigned state = 12345;
    size_t filled = 0;
    while (filled < sizeof pool - LONGEST_WORD_AND_NUMBER) {
        unsigned random = next_random(&state);
        filled += sprintf(pool + filled, "%s%u", WORDS[(random >> 16) & 7], (random >> 8) & 0xffff);
    }
}

static char *payload(unsigned *state) {
    return pool + next_random(state) % (sizeof pool - LONGEST_WORD_AND_NUMBER - options.size);
}

/* -- librdkafka ------------------------------------------------------------------------------------------------- */

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, key, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        die(key, error);
}

static void set_given_settings(rd_kafka_conf_t *conf) {
    for (int i = 0; i < options.settings_count; i++) {
        char key[256];
        const char *equals = strchr(options.settings[i], '=');
        if (!equals || equals - options.settings[i] >= (long)sizeof key)
            die(options.settings[i], "wanted is key=value");
        memcpy(key, options.settings[i], equals - options.settings[i]);
        key[equals - options.settings[i]] = 0;
        set(conf, key, equals + 1);
    }
}

static rd_kafka_conf_t *common_conf(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", options.brokers);
    set(conf, "log_level", "3");
    return conf;
}

static rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char error[512];
    rd_kafka_t *kafka = rd_kafka_new(type, conf, error, sizeof error);
    if (!kafka)
        die("client", error);
    return kafka;
}

static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque) {
    struct producer *producer = opaque;
    double *wait = message->_private;
    (void)kafka;
    if (message->err) {
        if (!producer->failed++)
            fprintf(stderr, "load: a message was not delivered: %s\n", rd_kafka_err2str(message->err));
        return;
    }
    producer->delivered++;
    if (wait)
        *wait = now() - *wait;
}

static void open_producer(struct producer *producer, const char *linger_ms) {
    const struct rd_kafka_metadata *metadata;
    rd_kafka_conf_t *conf = common_conf();
    memset(producer, 0, sizeof *producer);
    set(conf, "acks", options.acks);
    set(conf, "compression.codec", options.codec);
    set(conf, "linger.ms", linger_ms);
    set(conf, "queue.buffering.max.messages", "500000");
    set(conf, "queue.buffering.max.kbytes", "1048576");
    set_given_settings(conf);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, producer);
    producer->kafka = new_client(RD_KAFKA_PRODUCER, conf);
    producer->topic = rd_kafka_topic_new(producer->kafka, options.topic, NULL);
    rd_kafka_resp_err_t error = rd_kafka_metadata(producer->kafka, 0, producer->topic, &metadata, 30000);
    if (error)
        die("metadata", rd_kafka_err2str(error));
    rd_kafka_metadata_destroy(metadata);
}

static void send_message(struct producer *producer, int partition, char *bytes, double *wait) {
    while (rd_kafka_produce(producer->topic, partition, RD_KAFKA_MSG_F_COPY, bytes, options.size, NULL, 0, wait) == -1) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(producer->kafka, 5);
    }
}

/* Sends one message and waits until it is answered. */
static void send_and_wait(struct producer *producer, char *bytes, double *wait) {
    long answered = producer->delivered + producer->failed;
    send_message(producer, 0, bytes, wait);
    while (producer->delivered + producer->failed == answered)
        rd_kafka_poll(producer->kafka, 1000);
}

/* -- produce ---------------------------------------------------------------------------------------------------- */

static void poll_until(struct producer *producer, double due) {
    while (now() < due) {
        rd_kafka_poll(producer->kafka, 0);
        usleep(100);
    }
}

static int run_produce(void) {
    struct producer producer;
    unsigned random = 1;
    open_producer(&producer, options.linger_ms);
    if (options.rate)
        producer.waits = malloc(sizeof(double) * options.count);
    double started = now(), cpu = cpu_seconds();
    for (long i = 0; i < options.count; i++) {
        double *wait = NULL;
        if (options.rate) {
            /* Counted from when the message was due: a broker that stalls must not slow its own measurement down. */
            wait = producer.waits + i;
            *wait = started + (double)i / options.rate;
            poll_until(&producer, *wait);
        }
        send_message(&producer, (int)(i % options.partitions), payload(&random), wait);
        if (i % POLL_EVERY == 0)
            rd_kafka_poll(producer.kafka, 0);
    }
    rd_kafka_flush(producer.kafka, PATIENCE_MS);
    double seconds = now() - started;
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"client_cpu\": %.6f", producer.delivered, seconds,
           cpu_seconds() - cpu);
    int whole = producer.delivered == options.count;
    if (options.rate && whole)
        print_latencies(producer.waits, options.count);
    printf("}\n");
    return whole ? 0 : 1;
}

/* -- consume ---------------------------------------------------------------------------------------------------- */

static rd_kafka_queue_t *open_consumer(void) {
    rd_kafka_conf_t *conf = common_conf();
    set(conf, "group.id", "bench");
    set(conf, "enable.auto.commit", "false");
    set(conf, "fetch.message.max.bytes", "1048576");
    set(conf, "queued.min.messages", "1000000");
    set_given_settings(conf);
    rd_kafka_t *kafka = new_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(kafka);
    rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(options.partitions);
    for (int i = 0; i < options.partitions; i++)
        rd_kafka_topic_partition_list_add(partitions, options.topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_resp_err_t error = rd_kafka_assign(kafka, partitions);
    if (error)
        die("assign", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(partitions);
    return rd_kafka_queue_get_consumer(kafka);
}

static int run_consume(void) {
    rd_kafka_queue_t *queue = open_consumer();
    rd_kafka_message_t *messages[CONSUMED_AT_ONCE];
    double started = 0, cpu = 0, deadline = now() + PATIENCE_S;
    long consumed = 0, before_start = 0;
    while (consumed < options.count && now() < deadline) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 1000, messages, CONSUMED_AT_ONCE);
        for (ssize_t i = 0; i < got; i++) {
            if (!messages[i]->err)
                consumed++;
            rd_kafka_message_destroy(messages[i]);
        }
        if (!started && consumed) { /* the clock starts with the first messages, which do not count */
            started = now();
            cpu = cpu_seconds();
            before_start = consumed;
        }
    }
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"client_cpu\": %.6f}\n", consumed - before_start, now() - started,
           cpu_seconds() - cpu);
    fflush(stdout);
    _exit(consumed < options.count); /* closing a consumer with full queues takes long and says nothing */
}

/* -- synchronous producers -------------------------------------------------------------------------------------- */

struct sync_thread {
    pthread_t thread;
    double *waits;
    long count;
};
static pthread_barrier_t connected, finished;

static void *produce_synchronously(void *argument) {
    struct sync_thread *self = argument;
    struct producer producer;
    unsigned random = 1;
    open_producer(&producer, "0");
    send_and_wait(&producer, payload(&random), NULL);
    pthread_barrier_wait(&connected);
    for (long i = 0; i < self->count; i++) {
        self->waits[i] = now();
        send_and_wait(&producer, payload(&random), self->waits + i);
    }
    if (producer.failed)
        exit(1);
    pthread_barrier_wait(&finished);
    return NULL;
}

static int run_sync(void) {
    long each = options.count / options.threads, total = each * options.threads;
    double *waits = malloc(sizeof(double) * total);
    struct sync_thread *threads = calloc(options.threads, sizeof *threads);
    pthread_barrier_init(&connected, NULL, options.threads + 1);
    pthread_barrier_init(&finished, NULL, options.threads + 1);
    for (int i = 0; i < options.threads; i++) {
        threads[i].waits = waits + each * i;
        threads[i].count = each;
        if (pthread_create(&threads[i].thread, NULL, produce_synchronously, threads + i))
            die("thread", strerror(errno));
    }
    pthread_barrier_wait(&connected);
    double started = now(), cpu = cpu_seconds();
    pthread_barrier_wait(&finished);
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"client_cpu\": %.6f", total, now() - started, cpu_seconds() - cpu);
    print_latencies(waits, total);
    printf("}\n");
    fflush(stdout);
    _exit(0);
}

/* -- idle connections ------------------------------------------------------------------------------------------- */

/* Frame length 10 | ApiVersions 18 | version 0 | correlation id 1 | client id null */
static const unsigned char ASK_API_VERSIONS[14] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff};

static void receive_exactly(int connection, char *into, size_t size) {
    while (size) {
        ssize_t got = recv(connection, into, size, 0);
        if (got <= 0)
            die("idle connection", got ? strerror(errno) : "closed by the broker");
        into += got;
        size -= got;
    }
}

static struct sockaddr_in broker_address(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[64];
    int port;
    if (sscanf(options.brokers, "%63[^:]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die(options.brokers, "wanted is one IPv4 address and port");
    address.sin_port = htons(port);
    return address;
}

static int run_idle(void) {
    struct sockaddr_in address = broker_address();
    struct rlimit files;
    char answer[65536];
    unsigned size;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    double started = now(), cpu = cpu_seconds();
    for (long i = 0; i < options.count; i++) {
        int connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address))
            die("idle connection", strerror(errno));
        if (send(connection, ASK_API_VERSIONS, sizeof ASK_API_VERSIONS, 0) != sizeof ASK_API_VERSIONS)
            die("idle connection", strerror(errno));
        receive_exactly(connection, (char *)&size, sizeof size);
        if (ntohl(size) > sizeof answer)
            die("idle connection", "an answer larger than any ApiVersions answer");
        receive_exactly(connection, answer, ntohl(size));
    }
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"client_cpu\": %.6f}\n", options.count, now() - started,
           cpu_seconds() - cpu);
    fflush(stdout);
    while (read(STDIN_FILENO, answer, sizeof answer) > 0) {
    }
    return 0;
}

/* -- command line ------------------------------------------------------------------------------------------------ */

static void parse_options(int argc, char **argv) {
    static const struct option known[] = {
        {"brokers", required_argument, NULL, 'b'}, {"topic", required_argument, NULL, 't'},
        {"count", required_argument, NULL, 'n'},   {"size", required_argument, NULL, 's'},
        {"acks", required_argument, NULL, 'a'},    {"codec", required_argument, NULL, 'z'},
        {"linger", required_argument, NULL, 'l'},  {"partitions", required_argument, NULL, 'p'},
        {"threads", required_argument, NULL, 'T'}, {"rate", required_argument, NULL, 'r'},
        {"set", required_argument, NULL, 'X'},     {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'b': options.brokers = optarg; break;
        case 't': options.topic = optarg; break;
        case 'n': options.count = atol(optarg); break;
        case 's': options.size = atoi(optarg); break;
        case 'a': options.acks = optarg; break;
        case 'z': options.codec = optarg; break;
        case 'l': options.linger_ms = optarg; break;
        case 'p': options.partitions = atoi(optarg); break;
        case 'T': options.threads = atoi(optarg); break;
        case 'r': options.rate = atol(optarg); break;
        case 'X':
            if (options.settings_count == MAX_SETTINGS)
                die("--set", "too many settings");
            options.settings[options.settings_count++] = optarg;
            break;
        default: exit(2);
        }
    }
    if (options.count < 1 || options.partitions < 1 || options.threads < 1 || options.threads > options.count ||
        options.size < 0 || options.size > (1 << 20))
        die("options", "out of range");
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    parse_options(argc - 1, argv + 1);
    fill_pool();
    if (!strcmp(mode, "produce"))
        return run_produce();
    if (!strcmp(mode, "consume"))
        return run_consume();
    if (!strcmp(mode, "sync"))
        return run_sync();
    if (!strcmp(mode, "idle"))
        return run_idle();
    if (!strcmp(mode, "version"))
        return printf("%s\n", rd_kafka_version_str()) < 0;
    die("mode", "produce, consume, sync, idle or version is wanted");
    return 2;
}
