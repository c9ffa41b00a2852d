/* OffsetCommit requests to record batches of the offsets' topic: many small fields, so that reading them into objects
 * and writing those would cost several times the rest of a commit. Uses wrong_argument_count.
 *
 * Request, versions 2 to 10, F: flexible, from version 8 on (strings and arrays are compact, structures end with tags):
 *   int16 api key, int16 version, int32 correlation id, nullable string client id (never compact), F tags
 *   string group, int32 generation, string member, from 7 on nullable string instance, up to 4 int64 retention,
 *   array of topics: string name or, in version 10, 16 bytes id; array of partitions: int32 index, int64 offset,
 *                    from 6 on int32 leader epoch, nullable string metadata, F tags; F tags
 *   F tags
 * Answer: int32 size, int32 correlation id, F tags, from 3 on int32 throttle time,
 *   array of topics: name or id; array of partitions: int32 index, int16 error, F tags; F tags
 *   F tags
 * Record: key    int16 kind = 1, string group, string topic, int32 partition
 *         value  int16 version = 4, int64 offset, int32 leader epoch, compact string metadata, int64 time, one tag: 0 with
 *                the 16 bytes of the topic's id
 */

enum {
    OC_NO_RETENTION_FROM = 5,
    OC_THROTTLE_FROM = 3,
    OC_LEADER_EPOCH_FROM = 6,
    OC_INSTANCE_FROM = 7,
    OC_FLEXIBLE_FROM = 8,
    OC_TOPIC_IDS_FROM = 10,
    OC_ID_SIZE = 16,
    OC_LONGEST_STRING = 32767,
    /* Of a record, beside group, topic and metadata: varints, key and value. */
    OC_RECORD_ROOM = 128,
};

typedef struct {
    const uint8_t *p;
    const uint8_t *end;
    int flexible;
} oc_reader;

typedef struct {
    uint8_t *bytes;
    Py_ssize_t size;
    Py_ssize_t room;
} oc_writer;

typedef struct {
    const uint8_t *bytes;
    int32_t length; /* -1: null */
} oc_string;

typedef struct {
    oc_string group;
    oc_string name;
    const uint8_t *id;
    int32_t partitions;
    PyObject *values; /* by index, borrowed */
} oc_topic;

/* ---- reading: 1, or 0 if it is not there or not of the kind that is taken ------------------------------------------- */

static int
oc_take(oc_reader *in, Py_ssize_t size, const uint8_t **at)
{
    if (size > in->end - in->p) {
        return 0;
    }
    *at = in->p;
    in->p += size;
    return 1;
}

static int
oc_uvarint(oc_reader *in, uint32_t *value)
{
    uint32_t raw = 0;
    for (int shift = 0; shift <= 28; shift += 7) {
        if (in->p >= in->end) {
            return 0;
        }
        uint8_t byte = *in->p++;
        raw |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = raw;
            return shift < 28 || byte < 0x10;
        }
    }
    return 0;
}

static int
oc_int32(oc_reader *in, int32_t *value)
{
    const uint8_t *at;
    if (!oc_take(in, 4, &at)) {
        return 0;
    }
    *value = (int32_t)load_32(at);
    return 1;
}

static int
oc_legacy_string(oc_reader *in, oc_string *string)
{
    const uint8_t *at;
    if (!oc_take(in, 2, &at)) {
        return 0;
    }
    string->length = (int16_t)load_16(at);
    if (string->length < 0) {
        string->bytes = NULL;
        return string->length == -1;
    }
    return oc_take(in, string->length, &string->bytes);
}

static int
oc_nullable_string(oc_reader *in, oc_string *string)
{
    uint32_t raw;
    if (!in->flexible) {
        return oc_legacy_string(in, string);
    }
    if (!oc_uvarint(in, &raw) || raw > OC_LONGEST_STRING + 1) {
        return 0;
    }
    string->length = (int32_t)raw - 1;
    string->bytes = NULL;
    return raw == 0 || oc_take(in, string->length, &string->bytes);
}

static int
oc_string_of(oc_reader *in, oc_string *string)
{
    return oc_nullable_string(in, string) && string->length >= 0;
}

/* How many elements; an empty array is left to others, as is one that cannot be there. */
static int
oc_array(oc_reader *in, int32_t *count)
{
    uint32_t raw;
    if (!in->flexible) {
        return oc_int32(in, count) && *count > 0;
    }
    if (!oc_uvarint(in, &raw) || raw < 2 || raw > INT32_MAX) {
        return 0;
    }
    *count = (int32_t)raw - 1;
    return 1;
}

static int
oc_no_tags(oc_reader *in)
{
    const uint8_t *at;
    return !in->flexible || (oc_take(in, 1, &at) && *at == 0);
}

static int
oc_is_ascii(const oc_string *string)
{
    for (int32_t i = 0; i < string->length; i++) {
        if (string->bytes[i] >= 0x80) {
            return 0;
        }
    }
    return 1;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

static int
oc_ensure(oc_writer *out, Py_ssize_t more)
{
    if (out->size + more <= out->room) {
        return 0;
    }
    Py_ssize_t room = (out->size + more) * 2;
    uint8_t *bytes = PyMem_Realloc(out->bytes, (size_t)room);
    if (bytes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    out->bytes = bytes;
    out->room = room;
    return 0;
}

static inline void
oc_put(oc_writer *out, const void *bytes, Py_ssize_t size)
{
    memcpy(out->bytes + out->size, bytes, (size_t)size);
    out->size += size;
}

static inline void
oc_put_int(oc_writer *out, uint64_t value, int size)
{
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
        out->bytes[out->size++] = (uint8_t)(value >> shift);
    }
}

static inline void
oc_put_uvarint(oc_writer *out, uint32_t value)
{
    while (value >= 0x80) {
        out->bytes[out->size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out->bytes[out->size++] = (uint8_t)value;
}

static inline int
oc_uvarint_size(uint32_t value)
{
    int size = 1;
    for (; value >= 0x80; value >>= 7) {
        size++;
    }
    return size;
}

static void
oc_put_string(oc_writer *out, const oc_string *string)
{
    oc_put_int(out, (uint64_t)string->length, 2);
    oc_put(out, string->bytes, string->length);
}

/* Lengths and deltas of records are zig-zag numbers; none of ours is negative. */
static inline void
oc_put_count(oc_writer *out, int32_t value)
{
    oc_put_uvarint(out, (uint32_t)value << 1);
}

static inline int
oc_count_size(int32_t value)
{
    return oc_uvarint_size((uint32_t)value << 1);
}

/* ---- the parts of a commit: 1, 0 if it is for the long way, -1 with an exception --------------------------------------- */

typedef struct {
    oc_reader in;
    int version;
    int64_t now_ms;
    int32_t most;
    int32_t longest_note;
    int32_t room_for_notes;
    int32_t count;
    oc_writer batch;
    oc_writer answer;
} oc_commit;

static int
oc_write_record(oc_commit *commit, const oc_topic *topic, const uint8_t *index, const uint8_t *offset,
                const uint8_t *epoch, const oc_string *metadata)
{
    static const uint8_t no_epoch[4] = {0xFF, 0xFF, 0xFF, 0xFF}, id_tag[3] = {1, 0, OC_ID_SIZE};
    oc_writer *out = &commit->batch;
    int32_t text = metadata->length > 0 ? metadata->length : 0;
    int32_t key_size = 2 + 2 + topic->group.length + 2 + topic->name.length + 4;
    int32_t value_size = 2 + 8 + 4 + oc_uvarint_size((uint32_t)text + 1) + text + 8 + 3 + OC_ID_SIZE;
    if (oc_ensure(out, key_size + value_size + OC_RECORD_ROOM) < 0) {
        return -1;
    }
    oc_put_count(out, 1 + 1 + oc_count_size(commit->count) + oc_count_size(key_size) + key_size +
                          oc_count_size(value_size) + value_size + 1);
    oc_put_int(out, 0, 2); /* attributes, timestamp delta */
    oc_put_count(out, commit->count);
    oc_put_count(out, key_size);
    oc_put_int(out, 1, 2);
    oc_put_string(out, &topic->group);
    oc_put_string(out, &topic->name);
    oc_put(out, index, 4);
    oc_put_count(out, value_size);
    Py_ssize_t value_at = out->size;
    oc_put_int(out, 4, 2);
    oc_put(out, offset, 8);
    oc_put(out, epoch == NULL ? no_epoch : epoch, 4);
    oc_put_uvarint(out, (uint32_t)text + 1);
    if (text) {
        oc_put(out, metadata->bytes, text);
    }
    oc_put_int(out, (uint64_t)commit->now_ms, 8);
    oc_put(out, id_tag, sizeof id_tag);
    oc_put(out, topic->id, OC_ID_SIZE);
    PyObject *number = PyLong_FromUnsignedLong(load_32(index));
    PyObject *value = PyBytes_FromStringAndSize((const char *)out->bytes + value_at, value_size);
    int failed = number == NULL || value == NULL || PyDict_SetItem(topic->values, number, value) < 0;
    Py_XDECREF(number);
    Py_XDECREF(value);
    oc_put_int(out, 0, 1); /* no headers */
    return failed ? -1 : 1;
}

static int
oc_partition(oc_commit *commit, const oc_topic *topic)
{
    oc_reader *in = &commit->in;
    oc_writer *answer = &commit->answer;
    const uint8_t *index, *offset, *epoch = NULL;
    oc_string metadata;
    if (!oc_take(in, 4, &index) || !oc_take(in, 8, &offset) ||
        (commit->version >= OC_LEADER_EPOCH_FROM && !oc_take(in, 4, &epoch)) || !oc_nullable_string(in, &metadata) ||
        !oc_no_tags(in) || load_32(index) >= (uint32_t)topic->partitions || commit->count >= commit->most) {
        return 0;
    }
    if (metadata.length > 0) {
        if (metadata.length > commit->longest_note || metadata.length > commit->room_for_notes ||
             !oc_is_ascii(&metadata)) {
            return 0;
        }
        commit->room_for_notes -= metadata.length;
    }
    int written = oc_write_record(commit, topic, index, offset, epoch, &metadata);
    if (written <= 0 || oc_ensure(answer, 8) < 0) {
        return -1;
    }
    oc_put(answer, index, 4);
    oc_put_int(answer, 0, in->flexible ? 3 : 2);
    commit->count++;
    return 1;
}

/* What is known of a topic: (name, id, partitions), or None. */
static int
oc_describe(PyObject *found, oc_topic *topic)
{
    Py_ssize_t name_size;
    if (found == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) != 3 || !PyUnicode_Check(PyTuple_GET_ITEM(found, 0)) ||
        !PyBytes_Check(PyTuple_GET_ITEM(found, 1)) || PyBytes_GET_SIZE(PyTuple_GET_ITEM(found, 1)) != OC_ID_SIZE) {
        PyErr_SetString(PyExc_TypeError, "a topic is told as name, 16 bytes of id and count of partitions");
        return -1;
    }
    topic->name.bytes = (const uint8_t *)PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(found, 0), &name_size);
    topic->id = (const uint8_t *)PyBytes_AS_STRING(PyTuple_GET_ITEM(found, 1));
    topic->name.length = (int32_t)name_size;
    if (topic->name.bytes == NULL || read_count(PyTuple_GET_ITEM(found, 2), &topic->partitions) < 0) {
        return -1;
    }
    return name_size <= OC_LONGEST_STRING;
}

static int
oc_partitions(oc_commit *commit, oc_topic *topic, PyObject *found, PyObject *offsets)
{
    int32_t count;
    int state = oc_describe(found, topic);
    if (state <= 0 || !oc_array(&commit->in, &count)) {
        return state < 0 ? -1 : 0;
    }
    if (oc_ensure(&commit->answer, 5) < 0) {
        return -1;
    }
    if (commit->in.flexible) {
        oc_put_uvarint(&commit->answer, (uint32_t)count + 1);
    }
    else {
        oc_put_int(&commit->answer, (uint64_t)count, 4);
    }
    PyObject *empty = PyDict_New();
    if (empty == NULL) {
        return -1;
    }
    topic->values = PyDict_SetDefault(offsets, PyTuple_GET_ITEM(found, 0), empty);
    Py_DECREF(empty);
    state = topic->values == NULL ? -1 : 1;
    for (int32_t i = 0; state > 0 && i < count; i++) {
        state = oc_partition(commit, topic);
    }
    if (state <= 0 || !oc_no_tags(&commit->in)) {
        return state < 0 ? -1 : 0;
    }
    if (commit->in.flexible) {
        if (oc_ensure(&commit->answer, 1) < 0) {
            return -1;
        }
        oc_put_int(&commit->answer, 0, 1);
    }
    return 1;
}

static int
oc_topic_of(oc_commit *commit, const oc_string *group, PyObject *topics, PyObject *offsets)
{
    oc_reader *in = &commit->in;
    const uint8_t *start = in->p, *key;
    oc_string name;
    if (commit->version >= OC_TOPIC_IDS_FROM) {
        name.length = OC_ID_SIZE;
        if (!oc_take(in, OC_ID_SIZE, &name.bytes)) {
            return 0;
        }
    }
    else if (!oc_string_of(in, &name)) {
        return 0;
    }
    key = name.bytes;
    /* It stands in the answer as it stands in the request. */
    if (oc_ensure(&commit->answer, in->p - start) < 0) {
        return -1;
    }
    oc_put(&commit->answer, start, in->p - start);
    PyObject *wanted = PyBytes_FromStringAndSize((const char *)key, name.length);
    PyObject *found = wanted == NULL ? NULL : PyObject_GetItem(topics, wanted);
    Py_XDECREF(wanted);
    if (found == NULL) {
        return -1;
    }
    oc_topic topic = {.group = *group};
    int state = oc_partitions(commit, &topic, found, offsets);
    Py_DECREF(found);
    return state;
}

/* The head of the batch, once its records are there. */
static void
oc_close_batch(oc_commit *commit)
{
    uint8_t *bytes = commit->batch.bytes;
    oc_writer head = {bytes, 0, HEADER_SIZE};
    oc_put_int(&head, 0, 8);
    oc_put_int(&head, (uint64_t)(commit->batch.size - LOG_OVERHEAD), 4);
    oc_put_int(&head, UINT32_MAX, 4);
    oc_put_int(&head, MAGIC_V2, 1);
    oc_put_int(&head, 0, 4 + 2); /* checksum, attributes */
    oc_put_int(&head, (uint64_t)(commit->count - 1), 4);
    oc_put_int(&head, (uint64_t)commit->now_ms, 8);
    oc_put_int(&head, (uint64_t)commit->now_ms, 8);
    oc_put_int(&head, UINT64_MAX, 8); /* nobody's: neither id nor epoch nor sequence */
    oc_put_int(&head, UINT64_MAX, 2);
    oc_put_int(&head, UINT64_MAX, 4);
    oc_put_int(&head, (uint64_t)commit->count, 4);
    head.size = CRC_AT;
    oc_put_int(&head, crc32c(0, bytes + CRC_STARTS_AT, (size_t)(commit->batch.size - CRC_STARTS_AT)), 4);
}

static PyObject *
oc_text(const oc_string *string)
{
    if (string->length < 0) {
        Py_RETURN_NONE;
    }
    PyObject *text = PyUnicode_DecodeUTF8((const char *)string->bytes, string->length, "strict");
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
    }
    return text;
}

static PyObject *
oc_result(oc_commit *commit, const oc_string *group, int32_t generation, const oc_string *member,
          const oc_string *instance, PyObject *offsets)
{
    PyObject *texts[3] = {oc_text(group), oc_text(member), oc_text(instance)};
    PyObject *batch = NULL, *answer = NULL, *result = NULL;
    if (texts[0] != NULL && texts[1] != NULL && texts[2] != NULL) {
        oc_close_batch(commit);
        oc_writer size = {commit->answer.bytes, 0, 4};
        oc_put_int(&size, (uint64_t)(commit->answer.size - 4), 4);
        batch = PyByteArray_FromStringAndSize((const char *)commit->batch.bytes, commit->batch.size);
        answer = PyBytes_FromStringAndSize((const char *)commit->answer.bytes, commit->answer.size);
        if (batch != NULL && answer != NULL) {
            result = Py_BuildValue("(OiOOOOOi)", texts[0], (int)generation, texts[1], texts[2], batch, answer, offsets,
                                   (int)commit->count);
        }
    }
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(texts[i]);
    }
    Py_XDECREF(batch);
    Py_XDECREF(answer);
    return result;
}

/* The result, or NULL without an exception where it is for the long way. */
static PyObject *
oc_pack(oc_commit *commit, PyObject *topics)
{
    oc_reader *in = &commit->in;
    const uint8_t *fixed, *at;
    oc_string client, group, member, instance = {NULL, -1};
    int32_t generation, count;
    if (!oc_take(in, 8, &fixed) || !oc_legacy_string(in, &client) || !oc_is_ascii(&client) || !oc_no_tags(in) || !oc_string_of(in, &group) ||
        !oc_int32(in, &generation) || !oc_string_of(in, &member) ||
        (commit->version >= OC_INSTANCE_FROM && !oc_nullable_string(in, &instance)) ||
        (commit->version < OC_NO_RETENTION_FROM && (!oc_take(in, 8, &at) || load_64(at) != UINT64_MAX)) ||
        !oc_array(in, &count)) {
        return NULL;
    }
    if (oc_ensure(&commit->batch, 1024) < 0 || oc_ensure(&commit->answer, 128) < 0) {
        return NULL;
    }
    commit->batch.size = HEADER_SIZE;
    oc_put_int(&commit->answer, 0, 4);
    oc_put(&commit->answer, fixed + 4, 4);
    if (in->flexible) {
        oc_put_int(&commit->answer, 0, 1);
    }
    if (commit->version >= OC_THROTTLE_FROM) {
        oc_put_int(&commit->answer, 0, 4);
    }
    if (in->flexible) {
        oc_put_uvarint(&commit->answer, (uint32_t)count + 1);
    }
    else {
        oc_put_int(&commit->answer, (uint64_t)count, 4);
    }
    PyObject *offsets = PyDict_New(), *result = NULL;
    int state = offsets == NULL ? -1 : 1;
    for (int32_t i = 0; state > 0 && i < count; i++) {
        state = oc_topic_of(commit, &group, topics, offsets);
    }
    if (state > 0 && oc_no_tags(in) && in->p == in->end && (!in->flexible || oc_ensure(&commit->answer, 1) == 0)) {
        if (in->flexible) {
            oc_put_int(&commit->answer, 0, 1);
        }
        result = oc_result(commit, &group, generation, &member, &instance, offsets);
    }
    Py_XDECREF(offsets);
    return result;
}

static PyObject *
native_pack_commit(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    oc_commit commit = {.count = 0};
    Py_buffer frame;
    if (wrong_argument_count("pack_commit", given, 7, 7) < 0) {
        return NULL;
    }
    commit.version = (int)PyLong_AsLong(args[1]);
    commit.now_ms = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred() || read_count(args[4], &commit.most) < 0 || read_count(args[5], &commit.longest_note) < 0 ||
        read_count(args[6], &commit.room_for_notes) < 0 || PyObject_GetBuffer(args[0], &frame, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    commit.in = (oc_reader){(const uint8_t *)frame.buf, (const uint8_t *)frame.buf + frame.len,
                            commit.version >= OC_FLEXIBLE_FROM};
    PyObject *result = oc_pack(&commit, args[2]);
    PyBuffer_Release(&frame);
    PyMem_Free(commit.batch.bytes);
    PyMem_Free(commit.answer.bytes);
    if (result == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return result;
}
