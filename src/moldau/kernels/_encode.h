/* From rows in Arrow's columns (_sources.h) to the records of a batch (_records.h): where a row goes (murmur2), and its
 * bytes. Each function has a twin of the same name and meaning in encode.py.
 */
#ifndef MOLDAU_ENCODE_H
#define MOLDAU_ENCODE_H

#include "_sources.h"

#define STICKY_ROWS 128

/* ---- murmur2 and routes ----------------------------------------------------------------------------------------- */

/* As org.apache.kafka.common.utils.Utils.murmur2. */
static inline uint32_t
murmur2(const uint8_t *data, int64_t length)
{
    const uint32_t m = 0x5bd1e995;
    uint32_t h = 0x9747b28cu ^ (uint32_t)length;
    int64_t whole = length & ~(int64_t)3;
    for (int64_t i = 0; i < whole; i += 4) {
        uint32_t k = (uint32_t)data[i] | (uint32_t)data[i + 1] << 8 | (uint32_t)data[i + 2] << 16 |
                     (uint32_t)data[i + 3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h *= m;
        h ^= k;
    }
    switch (length & 3) {
    case 3:
        h ^= (uint32_t)data[whole + 2] << 16; /* fall through */
    case 2:
        h ^= (uint32_t)data[whole + 1] << 8; /* fall through */
    case 1:
        h ^= (uint32_t)data[whole];
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    h ^= h >> 15;
    return h;
}

static PyObject *
native_murmur2(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Py_buffer buffer;
    if (wrong_argument_count("murmur2", given, 1, 1) < 0 || PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int32_t hash = (int32_t)murmur2((const uint8_t *)buffer.buf, (int64_t)buffer.len);
    PyBuffer_Release(&buffer);
    return PyLong_FromLong(hash);
}

typedef struct {
    int64_t length;
    const bytes_source *key;
    const int32_t *topics;
    const int32_t *counts;
    int64_t topic_count;
    const numbers_source *partitions;
    int64_t *seen;
    int32_t *bases;
} routing;

static enum encode_problem
route_each(const routing *r, int32_t *routes, int64_t *wrong_row)
{
    for (int64_t row = 0; row < r->length; row++) {
        *wrong_row = row;
        int32_t topic = r->topics == NULL ? 0 : r->topics[row];
        if (topic < 0 || topic >= r->topic_count) {
            return BAD_ROW;
        }
        int32_t count = r->counts[topic], partition;
        const uint8_t *key = NULL;
        int64_t length = -1;
        int64_t place = r->partitions == NULL ? 0 : r->partitions->first + row;
        if (r->partitions != NULL && is_valid(r->partitions->validity, place)) {
            memcpy(&partition, r->partitions->values + place * 4, 4);
            if (partition < 0 || partition >= count) {
                return NO_SUCH_PARTITION;
            }
        }
        else if (r->key != NULL && !read_bytes_at(r->key, row, &key, &length)) {
            return BAD_OFFSETS_IN_COLUMN;
        }
        else if (length >= 0) {
            partition = (int32_t)((murmur2(key, length) & 0x7fffffffu) % (uint32_t)count);
        }
        else {
            partition = (int32_t)((uint64_t)r->seen[topic]++ / STICKY_ROWS % (uint64_t)count);
        }
        routes[row] = r->bases[topic] + partition;
    }
    return FINE;
}

static PyObject *
raise_problem(enum encode_problem problem, int64_t row)
{
    static const char *const texts[] = {
        [BAD_ROW] = "row %lld is out of range",
        [BAD_OFFSETS_IN_COLUMN] = "row %lld has offsets outside its column",
        [NULL_HEADER_KEY] = "row %lld has a header without a key",
        [RECORD_TOO_LARGE] = "row %lld is too large for a record",
        [NO_SUCH_PARTITION] = "row %lld names a partition that the topic does not have",
    };
    PyErr_Format(PyExc_ValueError, texts[problem], (long long)row);
    return NULL;
}

/* route_rows(length, key, topics, counts, partitions, seen) */
static PyObject *
native_route_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    bytes_source key = {.held = 0};
    numbers_source partitions = {.held = 0};
    Py_buffer buffers[3];
    int held = 0;
    PyObject *result = NULL;
    routing r = {.length = 0};
    if (wrong_argument_count("route_rows", given, 6, 6) < 0) {
        return NULL;
    }
    r.length = PyLong_AsLongLong(args[0]);
    if (r.length == -1 && PyErr_Occurred()) {
        return NULL;
    }
    const uint8_t *bytes;
    int64_t size;
    if ((args[1] != Py_None && open_bytes(args[1], &key) < 0) ||
        (args[4] != Py_None && open_numbers(args[4], 4, &partitions) < 0) ||
        hold_buffer(args[3], buffers, &held, &bytes, &size) < 0) {
        goto done;
    }
    r.counts = (const int32_t *)(const void *)bytes;
    r.topic_count = size / 4;
    r.key = args[1] == Py_None ? NULL : &key;
    r.partitions = args[4] == Py_None ? NULL : &partitions;
    if (PyObject_GetBuffer(args[5], &buffers[held], PyBUF_WRITABLE) < 0) {
        goto done;
    }
    r.seen = (int64_t *)buffers[held].buf;
    size = (int64_t)buffers[held++].len;
    if (size / 8 < r.topic_count || r.topic_count < 1) {
        PyErr_SetString(PyExc_ValueError, "the topics have no partition counts, or the counters are too few");
        goto done;
    }
    if (args[2] != Py_None) {
        if (hold_buffer(args[2], buffers, &held, &bytes, &size) < 0) {
            goto done;
        }
        r.topics = (const int32_t *)(const void *)bytes;
    }
    if (r.length < 0 || (r.topics != NULL && size / 4 < r.length) || (r.key != NULL && key.room < r.length) ||
        (r.partitions != NULL && partitions.room < r.length)) {
        PyErr_SetString(PyExc_ValueError, "a column is shorter than the rows");
        goto done;
    }
    r.bases = PyMem_Malloc((size_t)r.topic_count * sizeof *r.bases);
    if (r.bases == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    int32_t base = 0;
    for (int64_t i = 0; i < r.topic_count; i++) {
        r.bases[i] = base;
        if (r.counts[i] < 1 || r.counts[i] > INT32_MAX - base) {
            PyErr_SetString(PyExc_ValueError, "a topic has no partitions");
            goto done;
        }
        base += r.counts[i];
    }
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)r.length * 4);
    if (result != NULL) {
        int64_t wrong_row = 0;
        int32_t *routes = (int32_t *)(void *)PyBytes_AS_STRING(result);
        enum encode_problem problem;
        Py_BEGIN_ALLOW_THREADS
        problem = route_each(&r, routes, &wrong_row);
        Py_END_ALLOW_THREADS
        if (problem != FINE) {
            Py_CLEAR(result);
            raise_problem(problem, wrong_row);
        }
    }
done:
    PyMem_Free(r.bases);
    release_buffers(buffers, &held);
    close_bytes(&key);
    close_numbers(&partitions);
    return result;
}

/* order_rows(routes, route_count): rows sorted by route, in their order within one; and where each route ends. */
static PyObject *
native_order_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Py_buffer buffer;
    if (wrong_argument_count("order_rows", given, 2, 2) < 0) {
        return NULL;
    }
    long route_count = PyLong_AsLong(args[1]);
    if (route_count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (route_count < 0 || PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a count of routes is not negative");
        }
        return NULL;
    }
    const int32_t *routes = (const int32_t *)buffer.buf;
    Py_ssize_t rows = buffer.len / 4;
    PyObject *order = PyBytes_FromStringAndSize(NULL, rows * 4);
    PyObject *ends = PyList_New(route_count), *result = NULL;
    int32_t *starts = PyMem_Calloc((size_t)route_count + 1, sizeof *starts);
    if (order == NULL || ends == NULL || starts == NULL) {
        goto done;
    }
    for (Py_ssize_t row = 0; row < rows; row++) {
        if (routes[row] < 0 || routes[row] >= route_count) {
            raise_problem(BAD_ROW, row);
            goto done;
        }
        starts[routes[row] + 1]++;
    }
    for (long i = 0; i < route_count; i++) {
        starts[i + 1] += starts[i];
        PyObject *end = PyLong_FromLong(starts[i + 1]);
        if (end == NULL) {
            goto done;
        }
        PyList_SET_ITEM(ends, i, end);
    }
    int32_t *places = (int32_t *)(void *)PyBytes_AS_STRING(order);
    for (Py_ssize_t row = 0; row < rows; row++) {
        places[starts[routes[row]]++] = (int32_t)row;
    }
    result = Py_BuildValue("(OO)", order, ends);
done:
    if (starts == NULL) {
        PyErr_NoMemory();
    }
    PyMem_Free(starts);
    Py_XDECREF(order);
    Py_XDECREF(ends);
    PyBuffer_Release(&buffer);
    return result;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static inline int
varint_size(uint64_t zigzag)
{
    int size = 1;
    while (zigzag > 0x7F) {
        zigzag >>= 7;
        size++;
    }
    return size;
}

static inline uint64_t
zigzag_of(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline uint8_t *
write_varint(uint8_t *p, int64_t value)
{
    uint64_t rest = zigzag_of(value);
    while (rest > 0x7F) {
        *p++ = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    *p++ = (uint8_t)rest;
    return p;
}

static inline uint8_t *
write_nullable(uint8_t *p, const uint8_t *bytes, int64_t length)
{
    p = write_varint(p, length);
    if (length > 0) {
        memcpy(p, bytes, (size_t)length);
        p += length;
    }
    return p;
}

static inline int64_t
nullable_size(int64_t length)
{
    return varint_size(zigzag_of(length)) + (length > 0 ? length : 0);
}

typedef struct {
    const uint8_t *key, *value;
    int64_t key_length, value_length;
    int64_t first_header, header_count;
    int64_t timestamp;
    int64_t body; /* bytes after the record's length */
} row_record;

static inline enum encode_problem
headers_size(const headers_source *headers, row_record *record, int64_t *size)
{
    for (int64_t i = 0; i < record->header_count; i++) {
        const uint8_t *bytes;
        int64_t key_length, value_length;
        if (!read_bytes_at(&headers->keys, record->first_header + i, &bytes, &key_length) ||
            !read_bytes_at(&headers->values, record->first_header + i, &bytes, &value_length)) {
            return BAD_OFFSETS_IN_COLUMN;
        }
        if (key_length < 0) {
            return NULL_HEADER_KEY;
        }
        *size += nullable_size(key_length) + nullable_size(value_length);
    }
    return FINE;
}

static inline enum encode_problem
read_row(const row_sources *rows, int64_t row, int64_t default_timestamp, row_record *record)
{
    record->key = record->value = NULL;
    record->key_length = record->value_length = -1;
    record->first_header = record->header_count = 0;
    record->timestamp = default_timestamp;
    record->body = 0;
    if ((rows->has_key && !read_bytes_at(&rows->key, row, &record->key, &record->key_length)) ||
        (rows->has_value && !read_bytes_at(&rows->value, row, &record->value, &record->value_length)) ||
        (rows->has_headers && !read_header_span(&rows->headers, row, &record->first_header, &record->header_count))) {
        return BAD_OFFSETS_IN_COLUMN;
    }
    int64_t microseconds;
    if (rows->has_timestamps && read_number_at(&rows->timestamps, row, &microseconds)) {
        record->timestamp = milliseconds_of(microseconds);
    }
    return FINE;
}

static inline enum encode_problem
size_row(const row_sources *rows, row_record *record, int64_t base_timestamp, int64_t delta)
{
    int64_t timestamp_delta = (int64_t)((uint64_t)record->timestamp - (uint64_t)base_timestamp);
    int64_t size = 1 + varint_size(zigzag_of(timestamp_delta)) + varint_size(zigzag_of(delta)) +
                   nullable_size(record->key_length) + nullable_size(record->value_length) +
                   varint_size(zigzag_of(record->header_count));
    if (record->header_count > 0) {
        enum encode_problem problem = headers_size(&rows->headers, record, &size);
        if (problem != FINE) {
            return problem;
        }
    }
    record->body = size;
    return size > INT32_MAX ? RECORD_TOO_LARGE : FINE;
}

static inline uint8_t *
write_row(uint8_t *p, const row_sources *rows, const row_record *record, int64_t base_timestamp, int64_t delta)
{
    p = write_varint(p, record->body);
    *p++ = 0;
    p = write_varint(p, (int64_t)((uint64_t)record->timestamp - (uint64_t)base_timestamp));
    p = write_varint(p, delta);
    p = write_nullable(p, record->key, record->key_length);
    p = write_nullable(p, record->value, record->value_length);
    p = write_varint(p, record->header_count);
    for (int64_t i = 0; i < record->header_count; i++) {
        const uint8_t *key = NULL, *value = NULL;
        int64_t key_length = -1, value_length = -1;
        read_bytes_at(&rows->headers.keys, record->first_header + i, &key, &key_length);
        read_bytes_at(&rows->headers.values, record->first_header + i, &value, &value_length);
        p = write_nullable(p, key, key_length);
        p = write_nullable(p, value, value_length);
    }
    return p;
}

typedef struct {
    const row_sources *rows;
    const int32_t *order;
    int64_t start, stop, length;
    int64_t base_timestamp;
    int has_base;
    int64_t default_timestamp;
    int64_t first_delta;
    int64_t room;
    /* results */
    int64_t taken, size, max_timestamp, wrong_row;
} encoding;

static enum encode_problem
measure_records(encoding *e)
{
    e->taken = e->size = 0;
    e->max_timestamp = INT64_MIN;
    for (int64_t i = e->start; i < e->stop; i++) {
        int64_t row = e->order[i];
        row_record record;
        enum encode_problem problem = BAD_ROW;
        e->wrong_row = row;
        if (row < 0 || row >= e->length ||
            (problem = read_row(e->rows, row, e->default_timestamp, &record)) != FINE) {
            return problem;
        }
        if (!e->has_base) {
            e->base_timestamp = record.timestamp;
            e->has_base = 1;
        }
        int64_t delta = e->first_delta + e->taken;
        if ((problem = size_row(e->rows, &record, e->base_timestamp, delta)) != FINE) {
            return problem;
        }
        int64_t size = record.body + varint_size(zigzag_of(record.body));
        if (e->size + size > e->room && delta > 0) {
            break;
        }
        e->size += size;
        e->taken++;
        if (record.timestamp > e->max_timestamp) {
            e->max_timestamp = record.timestamp;
        }
    }
    return FINE;
}

static void
write_records(const encoding *e, uint8_t *p)
{
    for (int64_t i = 0; i < e->taken; i++) {
        row_record record;
        read_row(e->rows, e->order[e->start + i], e->default_timestamp, &record);
        size_row(e->rows, &record, e->base_timestamp, e->first_delta + i);
        p = write_row(p, e->rows, &record, e->base_timestamp, e->first_delta + i);
    }
}

static int
read_integers(PyObject *const *args, int64_t *const *targets, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        *targets[i] = PyLong_AsLongLong(args[i]);
        if (*targets[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* encode_records(rows, length, order, start, stop, default_timestamp, base_timestamp, first_delta, room) */
static PyObject *
native_encode_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    row_sources rows;
    encoding e = {.rows = &rows};
    if (wrong_argument_count("encode_records", given, 9, 9) < 0) {
        return NULL;
    }
    int64_t *const places[] = {&e.start, &e.stop, &e.default_timestamp};
    int64_t *const limits[] = {&e.first_delta, &e.room};
    e.length = PyLong_AsLongLong(args[1]);
    if ((e.length == -1 && PyErr_Occurred()) || read_integers(args + 3, places, 3) < 0 ||
        read_integers(args + 7, limits, 2) < 0) {
        return NULL;
    }
    e.has_base = args[6] != Py_None;
    if (e.has_base && (e.base_timestamp = PyLong_AsLongLong(args[6])) == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer order;
    if (PyObject_GetBuffer(args[2], &order, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    if (open_rows(args[0], e.length, &rows) < 0) {
        PyBuffer_Release(&order);
        return NULL;
    }
    PyObject *payload = NULL;
    if (e.start < 0 || e.start > e.stop || e.stop > order.len / 4 || e.first_delta < 0 ||
        e.first_delta > INT32_MAX - (e.stop - e.start)) {
        PyErr_SetString(PyExc_ValueError, "the wanted rows lie outside the order");
        goto done;
    }
    e.order = (const int32_t *)order.buf;
    enum encode_problem problem;
    Py_BEGIN_ALLOW_THREADS
    problem = measure_records(&e);
    Py_END_ALLOW_THREADS
    if (problem != FINE) {
        raise_problem(problem, e.wrong_row);
        goto done;
    }
    payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)e.size);
    if (payload != NULL) {
        uint8_t *target = (uint8_t *)PyBytes_AS_STRING(payload);
        Py_BEGIN_ALLOW_THREADS
        write_records(&e, target);
        Py_END_ALLOW_THREADS
    }
done:
    close_rows(&rows);
    PyBuffer_Release(&order);
    if (payload == NULL) {
        return NULL;
    }
    return Py_BuildValue("(NLLL)", payload, (long long)e.taken, (long long)e.base_timestamp,
                         (long long)e.max_timestamp);
}

#endif
