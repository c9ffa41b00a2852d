/* Record batches to columns in Arrow's layout, so that whoever builds Arrow arrays from them copies nothing.
 *
 * A column of bytes is three buffers, little-endian as the machine:
 *   offsets   int32 × (rows + 1), the first is 0
 *   data      the bytes of all rows, one after the other
 *   validity  one bit per row from the lowest up, 1 = not null; left out if nothing is null
 * Offsets and timestamps (microseconds) are int64 × rows, timestamp types int32 × rows. Headers are a list: validity and
 * int32 offsets per row, then the keys (UTF-8) and values of all headers as two columns of bytes. A record without
 * headers has null for a list, as in Spark's own Kafka source.
 *
 * The layout of batches and records: _records.h. The twin: columns.py.
 */
#ifndef MOLDAU_COLUMNS_H
#define MOLDAU_COLUMNS_H

#include <string.h>

#include "_crc32c.h"
#include "_records.h"

enum {
    WANT_KEY = 1,
    WANT_VALUE = 2,
    WANT_OFFSET = 4,
    WANT_TIMESTAMP = 8,
    WANT_TIMESTAMP_TYPE = 16,
    WANT_HEADERS = 32,
    WANT_ALL = 63,
};

enum { LOG_APPEND_TIME = 0x08, TRANSACTIONAL = 0x10 };
enum { SMALLEST_RECORD = 7, ARROW_LIMIT = INT32_MAX };
enum { DATA_ENDED, SPECIAL, FULL, PAST_END };
enum outcome { ALL_TAKEN, NO_ROOM, MALFORMED, NO_MEMORY };

/* From how many bytes on the interpreter's lock is released: this is work for readers, none for an event loop. */
#define COLUMNS_RELEASE_FROM 8192

typedef struct {
    uint8_t *bytes;
    size_t used;
    size_t capacity;
    size_t expected; /* what the last one held when it was taken */
} growing;

typedef struct {
    growing validity;
    int64_t items;
    int64_t nulls;
} bits;

typedef struct {
    bits validity;
    growing offsets;
    growing data;
} bytes_column;

typedef struct {
    PyObject_HEAD
    int want;
    int busy;
    int64_t row_bytes;
    int64_t low_timestamp;
    int64_t high_timestamp;
    int64_t rows;
    int64_t held;
    bytes_column key;
    bytes_column value;
    growing offset;
    growing timestamp;
    growing timestamp_type;
    bits header_lists;
    growing header_offsets;
    bytes_column header_key;
    bytes_column header_value;
} record_columns;

/* ---- growing buffers -------------------------------------------------------------------------------------------- */

static int
grow(growing *buffer, size_t more)
{
    size_t wanted = buffer->used + more, capacity = buffer->capacity + buffer->capacity / 2;
    if (capacity < buffer->expected) {
        capacity = buffer->expected;
    }
    if (capacity < wanted) {
        capacity = wanted;
    }
    capacity = (capacity + 127) & ~(size_t)63;
    uint8_t *bytes = PyMem_RawRealloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        return -1;
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return 0;
}

static inline int
reserve(growing *buffer, size_t more)
{
    return more <= buffer->capacity - buffer->used ? 0 : grow(buffer, more);
}

/* The push functions write where `reserve` has made room before. */
static inline void
push_int32(growing *buffer, int32_t value)
{
    memcpy(buffer->bytes + buffer->used, &value, sizeof value);
    buffer->used += sizeof value;
}

static inline void
push_int64(growing *buffer, int64_t value)
{
    memcpy(buffer->bytes + buffer->used, &value, sizeof value);
    buffer->used += sizeof value;
}

static inline void
push_bit(bits *column, int valid)
{
    if ((column->items & 7) == 0) {
        column->validity.bytes[column->validity.used++] = 0;
    }
    if (valid) {
        column->validity.bytes[column->validity.used - 1] |= (uint8_t)(1u << (column->items & 7));
    }
    else {
        column->nulls++;
    }
    column->items++;
}

static inline int
reserve_bytes_rows(bytes_column *column, size_t rows)
{
    int first = column->offsets.used == 0;
    if (reserve(&column->offsets, (rows + 1) * sizeof(int32_t)) < 0 ||
        reserve(&column->validity.validity, rows / 8 + 1) < 0) {
        return -1;
    }
    if (first) {
        push_int32(&column->offsets, 0);
    }
    return 0;
}

/* Rows must be reserved; the data is reserved here. */
static inline int
push_bytes(bytes_column *column, const uint8_t *bytes, int32_t length)
{
    if (length > 0) {
        if (reserve(&column->data, (size_t)length) < 0) {
            return -1;
        }
        memcpy(column->data.bytes + column->data.used, bytes, (size_t)length);
        column->data.used += (size_t)length;
    }
    push_bit(&column->validity, length >= 0);
    push_int32(&column->offsets, (int32_t)column->data.used);
    return 0;
}

/* ---- header keys are text --------------------------------------------------------------------------------------- */

/* Length of the well-formed character at `p`, or minus the length of the bad bytes that one U+FFFD stands for: the
 * longest start of a character, at least one byte, as Python and Java have it. */
static int
utf8_step(const uint8_t *p, const uint8_t *end)
{
    uint8_t first = *p;
    if (first < 0x80) {
        return 1;
    }
    int length = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
    if (length == 0) {
        return -1;
    }
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < length; i++) {
        if (p + i >= end || p[i] < low || p[i] > high) {
            return -i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

static enum outcome
push_text(bytes_column *column, const uint8_t *text, int32_t length)
{
    const uint8_t *p = text, *end = text + length, *sound = text;
    while (p < end) {
        int step = utf8_step(p, end);
        if (step > 0) {
            p += step;
            continue;
        }
        size_t good = (size_t)(p - sound);
        if (reserve(&column->data, good + 3) < 0) {
            return NO_MEMORY;
        }
        memcpy(column->data.bytes + column->data.used, sound, good);
        memcpy(column->data.bytes + column->data.used + good, "\xEF\xBF\xBD", 3);
        column->data.used += good + 3;
        p -= step;
        sound = p;
    }
    /* Three bytes may stand for one, so the bound that holds for all other columns does not hold for this one. */
    if (column->data.used + (size_t)(end - sound) > ARROW_LIMIT) {
        return MALFORMED;
    }
    return push_bytes(column, sound, (int32_t)(end - sound)) < 0 ? NO_MEMORY : ALL_TAKEN;
}

static enum outcome
push_headers(record_columns *self, const record_fields *record)
{
    const uint8_t *p = record->headers;
    if (reserve_bytes_rows(&self->header_key, (size_t)record->header_count) < 0 ||
        reserve_bytes_rows(&self->header_value, (size_t)record->header_count) < 0) {
        return NO_MEMORY;
    }
    for (int32_t i = 0; i < record->header_count; i++) {
        const uint8_t *key, *value;
        int32_t key_length, value_length;
        p = read_header_pair(p, record->end, &key, &key_length, &value, &value_length);
        if (p == NULL) {
            return MALFORMED;
        }
        enum outcome done = push_text(&self->header_key, key, key_length);
        if (done != ALL_TAKEN) {
            return done;
        }
        if (push_bytes(&self->header_value, value, value_length) < 0) {
            return NO_MEMORY;
        }
    }
    push_bit(&self->header_lists, record->header_count > 0);
    push_int32(&self->header_offsets, (int32_t)self->header_key.validity.items);
    return ALL_TAKEN;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static int
reserve_rows(record_columns *self, size_t rows)
{
    int want = self->want;
    if (((want & WANT_KEY) && reserve_bytes_rows(&self->key, rows) < 0) ||
        ((want & WANT_VALUE) && reserve_bytes_rows(&self->value, rows) < 0) ||
        ((want & WANT_OFFSET) && reserve(&self->offset, rows * sizeof(int64_t)) < 0) ||
        ((want & WANT_TIMESTAMP) && reserve(&self->timestamp, rows * sizeof(int64_t)) < 0) ||
        ((want & WANT_TIMESTAMP_TYPE) && reserve(&self->timestamp_type, rows * sizeof(int32_t)) < 0)) {
        return -1;
    }
    if (!(want & WANT_HEADERS)) {
        return 0;
    }
    int first = self->header_offsets.used == 0;
    if (reserve(&self->header_offsets, (rows + 1) * sizeof(int32_t)) < 0 ||
        reserve(&self->header_lists.validity, rows / 8 + 1) < 0) {
        return -1;
    }
    if (first) {
        push_int32(&self->header_offsets, 0);
    }
    return 0;
}

static inline int64_t
size_of_row(const record_columns *self, const record_fields *record)
{
    int64_t size = self->row_bytes;
    if ((self->want & WANT_KEY) && record->key_length > 0) {
        size += record->key_length;
    }
    if ((self->want & WANT_VALUE) && record->value_length > 0) {
        size += record->value_length;
    }
    if (self->want & WANT_HEADERS) {
        size += record->end - record->headers + (int64_t)record->header_count * 8;
    }
    return size;
}

static inline enum outcome
push_row(record_columns *self, const record_fields *record, int64_t offset, int64_t micros, int32_t timestamp_type)
{
    int want = self->want;
    if (((want & WANT_KEY) && push_bytes(&self->key, record->key, record->key_length) < 0) ||
        ((want & WANT_VALUE) && push_bytes(&self->value, record->value, record->value_length) < 0)) {
        return NO_MEMORY;
    }
    if (want & WANT_OFFSET) {
        push_int64(&self->offset, offset);
    }
    if (want & WANT_TIMESTAMP) {
        push_int64(&self->timestamp, micros);
    }
    if (want & WANT_TIMESTAMP_TYPE) {
        push_int32(&self->timestamp_type, timestamp_type);
    }
    return want & WANT_HEADERS ? push_headers(self, record) : ALL_TAKEN;
}

static inline int64_t
microseconds(int64_t milliseconds)
{
    return (int64_t)((uint64_t)milliseconds * 1000u);
}

static inline size_t
most_rows(const record_columns *self, int32_t count, int64_t payload, int64_t room)
{
    int64_t most = payload / SMALLEST_RECORD + 1;
    if (self->row_bytes > 0 && room / self->row_bytes + 1 < most) {
        most = room / self->row_bytes + 1;
    }
    return (size_t)(count < most ? count : most);
}

static inline int
makes_no_sense(const batch_header *header)
{
    return header->base_offset < 0 || header->last_offset_delta < 0 || header->count < 0 ||
           header->base_offset > INT64_MAX - header->last_offset_delta - 1;
}

/* Takes the records of one batch with start <= offset < stop, as long as there is room; the first row always has room.
 * `*next` is the offset of the first record that had none, or the one behind the batch. */
static enum outcome
append_records(record_columns *self, const batch_header *header, const uint8_t *p, const uint8_t *end, int64_t start,
               int64_t stop, int64_t room, int64_t *next)
{
    int32_t timestamp_type = header->attributes & LOG_APPEND_TIME ? 1 : 0;
    int64_t previous = -1;
    *next = header->base_offset + header->last_offset_delta + 1;
    if (reserve_rows(self, most_rows(self, header->count, end - p, room)) < 0) {
        return NO_MEMORY;
    }
    for (int32_t i = 0; i < header->count; i++) {
        record_fields record;
        p = read_record(p, end, &record);
        if (p == NULL || record.offset_delta <= previous || record.offset_delta > header->last_offset_delta) {
            return MALFORMED;
        }
        previous = record.offset_delta;
        int64_t offset = header->base_offset + record.offset_delta;
        if (offset < start) {
            continue;
        }
        if (offset >= stop) {
            return ALL_TAKEN;
        }
        int64_t micros = microseconds(timestamp_type ? header->max_timestamp
                                                     : wrapping_sum(header->base_timestamp, record.timestamp_delta));
        if (micros < self->low_timestamp || micros > self->high_timestamp) {
            continue;
        }
        int64_t size = size_of_row(self, &record);
        if (self->rows > 0 && self->held + size > room) {
            *next = offset;
            return NO_ROOM;
        }
        enum outcome done = push_row(self, &record, offset, micros, timestamp_type);
        if (done != ALL_TAKEN) {
            return done;
        }
        self->rows++;
        self->held += size;
    }
    return p == end ? ALL_TAKEN : MALFORMED;
}

typedef struct {
    const uint8_t *start;
    int64_t position;
    int64_t limit;
    int64_t next;
    int64_t stop;
    int64_t room;
    int check_crc;
    int stop_at_transactional;
    int how;
    enum batch_status status;
    enum outcome outcome;
} run;

/* Goes from batch to batch until something ends it; `how`, or `status` or `outcome` if it went wrong, says what. */
static void
append_batches(record_columns *self, run *r)
{
    r->how = DATA_ENDED;
    while (r->position < r->limit) {
        const uint8_t *p = r->start + r->position;
        int64_t size, available = r->limit - r->position;
        r->status = frame_batch(p, available, &size);
        if (r->status == TRUNCATED || (r->status == OK && size > available)) {
            r->status = OK;
            return;
        }
        if (r->status != OK) {
            return;
        }
        batch_header header;
        load_header(p, &header);
        if (makes_no_sense(&header)) {
            r->status = BAD_COUNT;
            return;
        }
        int64_t last = header.base_offset + header.last_offset_delta;
        if (header.base_offset >= r->stop) {
            r->how = PAST_END;
            return;
        }
        if (last < r->next) {
            r->position += size;
            continue;
        }
        if ((header.attributes & (CODEC_MASK | CONTROL)) ||
            (r->stop_at_transactional && (header.attributes & TRANSACTIONAL))) {
            r->how = SPECIAL;
            return;
        }
        if (r->check_crc && crc32c(0, p + CRC_STARTS_AT, (size_t)(size - CRC_STARTS_AT)) != header.crc) {
            r->status = BAD_CRC;
            return;
        }
        int64_t next;
        r->outcome = append_records(self, &header, p + HEADER_SIZE, p + size, r->next, r->stop, r->room, &next);
        if (r->outcome == MALFORMED || r->outcome == NO_MEMORY) {
            r->status = r->outcome == MALFORMED ? BAD_RECORD : OK;
            return;
        }
        r->next = next;
        if (r->outcome == NO_ROOM) {
            r->outcome = ALL_TAKEN;
            r->how = FULL;
            return;
        }
        r->position += size;
        if (next >= r->stop) {
            r->how = PAST_END;
            return;
        }
    }
}

/* ---- a buffer that owns its bytes ------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    uint8_t *bytes;
    Py_ssize_t size;
} column_buffer;

static PyTypeObject *column_buffer_type;

static void
column_buffer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyMem_RawFree(((column_buffer *)object)->bytes);
    type->tp_free(object);
    Py_DECREF(type);
}

static int
column_buffer_get(PyObject *object, Py_buffer *view, int flags)
{
    column_buffer *self = (column_buffer *)object;
    static uint8_t nothing[8];
    return PyBuffer_FillInfo(view, object, self->bytes == NULL ? nothing : self->bytes, self->size, 1, flags);
}

static PyType_Slot column_buffer_slots[] = {
    {Py_tp_doc, "Bytes of one column, read through the buffer protocol."},
    {Py_tp_dealloc, column_buffer_dealloc},
    {Py_bf_getbuffer, column_buffer_get},
    {0, NULL},
};

static PyType_Spec column_buffer_spec = {
    .name = "moldau.kernels._native.ColumnBuffer",
    .basicsize = sizeof(column_buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = column_buffer_slots,
};

/* Hands the bytes over; the next ones are expected to be as many. */
static PyObject *
taken(growing *buffer)
{
    column_buffer *object = PyObject_New(column_buffer, column_buffer_type);
    if (object == NULL) {
        return NULL;
    }
    object->bytes = buffer->bytes;
    object->size = (Py_ssize_t)buffer->used;
    *buffer = (growing){.expected = buffer->used + buffer->used / 16};
    return (PyObject *)object;
}

static PyObject *
taken_validity(bits *column)
{
    column->items = 0;
    if (column->nulls == 0) {
        column->validity.used = 0;
        Py_RETURN_NONE;
    }
    column->nulls = 0;
    return taken(&column->validity);
}

static PyObject *
taken_bytes(bytes_column *column)
{
    if (column->offsets.used == 0 && reserve_bytes_rows(column, 0) < 0) {
        return PyErr_NoMemory();
    }
    Py_ssize_t nulls = (Py_ssize_t)column->validity.nulls;
    /* "N" takes over the reference, also of NULL, which makes the result NULL. */
    return Py_BuildValue("(NNNn)", taken_validity(&column->validity), taken(&column->offsets), taken(&column->data),
                         nulls);
}

/* ---- the type --------------------------------------------------------------------------------------------------- */

static PyObject *
columns_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"", "", "", "", NULL};
    int want;
    long long extra = 0, low = INT64_MIN, high = INT64_MAX;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "i|LLL", names, &want, &extra, &low, &high)) {
        return NULL;
    }
    if (want < 0 || want > WANT_ALL || extra < 0 || extra > ARROW_LIMIT) {
        PyErr_SetString(PyExc_ValueError, "unknown columns, or a senseless size of a row");
        return NULL;
    }
    record_columns *self = (record_columns *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->want = want;
        self->low_timestamp = low;
        self->high_timestamp = high;
        self->row_bytes = extra + (want & WANT_KEY ? 4 : 0) + (want & WANT_VALUE ? 4 : 0) +
                          (want & WANT_OFFSET ? 8 : 0) + (want & WANT_TIMESTAMP ? 8 : 0) +
                          (want & WANT_TIMESTAMP_TYPE ? 4 : 0) + (want & WANT_HEADERS ? 4 : 0);
    }
    return (PyObject *)self;
}

static void
columns_dealloc(PyObject *object)
{
    record_columns *self = (record_columns *)object;
    PyTypeObject *type = Py_TYPE(object);
    growing *all[] = {&self->key.validity.validity,   &self->key.offsets,          &self->key.data,
                      &self->value.validity.validity, &self->value.offsets,        &self->value.data,
                      &self->offset,                  &self->timestamp,            &self->timestamp_type,
                      &self->header_lists.validity,   &self->header_offsets,       &self->header_key.validity.validity,
                      &self->header_key.offsets,      &self->header_key.data,      &self->header_value.validity.validity,
                      &self->header_value.offsets,    &self->header_value.data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        PyMem_RawFree(all[i]->bytes);
    }
    type->tp_free(object);
    Py_DECREF(type);
}

static int
columns_enter(record_columns *self)
{
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "these columns are in use by another thread");
        return -1;
    }
    return 0;
}

static int
read_numbers(PyObject *const *args, Py_ssize_t count, int64_t *numbers)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        numbers[i] = PyLong_AsLongLong(args[i]);
        if (numbers[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static inline int64_t
bounded_room(int64_t room)
{
    return room < 0 ? 0 : room > ARROW_LIMIT ? ARROW_LIMIT : room;
}

static const char *const STATUS_NAMES[] = {"OK",        "TRUNCATED",  "BAD_LENGTH", "BAD_MAGIC",  "BAD_CRC",
                                           "BAD_COUNT", "BAD_RECORD", "COMPRESSED", "BAD_OFFSETS"};

static PyObject *
columns_append_run(PyObject *object, PyObject *const *args, Py_ssize_t given)
{
    record_columns *self = (record_columns *)object;
    window w;
    int64_t numbers[3];
    run r = {.status = OK, .outcome = ALL_TAKEN};
    if (wrong_argument_count("append_run", given, 8, 8) < 0 || read_numbers(args + 3, 3, numbers) < 0 ||
        (r.check_crc = PyObject_IsTrue(args[6])) < 0 || (r.stop_at_transactional = PyObject_IsTrue(args[7])) < 0 ||
        columns_enter(self) < 0 || open_window(&w, args) < 0) {
        return NULL;
    }
    r.start = w.start;
    r.position = w.position;
    r.limit = w.limit;
    r.next = numbers[0];
    r.stop = numbers[1];
    r.room = bounded_room(numbers[2]);
    if (w.limit - w.position >= COLUMNS_RELEASE_FROM) {
        self->busy = 1;
        Py_BEGIN_ALLOW_THREADS
        append_batches(self, &r);
        Py_END_ALLOW_THREADS
        self->busy = 0;
    }
    else {
        append_batches(self, &r);
    }
    PyBuffer_Release(&w.buffer);
    if (r.outcome == NO_MEMORY) {
        return PyErr_NoMemory();
    }
    if (r.status != OK) {
        return PyErr_Format(PyExc_ValueError, "%s at position %zd", STATUS_NAMES[r.status], (Py_ssize_t)r.position);
    }
    return Py_BuildValue("(nLi)", (Py_ssize_t)r.position, (long long)r.next, r.how);
}

static PyObject *
columns_append_batch(PyObject *object, PyObject *const *args, Py_ssize_t given)
{
    record_columns *self = (record_columns *)object;
    Py_buffer head, payload;
    int64_t numbers[3], next;
    if (wrong_argument_count("append_batch", given, 5, 5) < 0 || read_numbers(args + 2, 3, numbers) < 0 ||
        columns_enter(self) < 0 || PyObject_GetBuffer(args[0], &head, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    if (head.len < HEADER_SIZE) {
        PyBuffer_Release(&head);
        return PyErr_Format(PyExc_ValueError, "a batch has a head of %d bytes", HEADER_SIZE);
    }
    batch_header header;
    load_header((const uint8_t *)head.buf, &header);
    PyBuffer_Release(&head);
    if (PyObject_GetBuffer(args[1], &payload, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const uint8_t *p = (const uint8_t *)payload.buf, *end = p + payload.len;
    int64_t room = bounded_room(numbers[2]);
    enum outcome outcome = MALFORMED;
    if (!makes_no_sense(&header) && payload.len >= COLUMNS_RELEASE_FROM) {
        self->busy = 1;
        Py_BEGIN_ALLOW_THREADS
        outcome = append_records(self, &header, p, end, numbers[0], numbers[1], room, &next);
        Py_END_ALLOW_THREADS
        self->busy = 0;
    }
    else if (!makes_no_sense(&header)) {
        outcome = append_records(self, &header, p, end, numbers[0], numbers[1], room, &next);
    }
    PyBuffer_Release(&payload);
    if (outcome == NO_MEMORY) {
        return PyErr_NoMemory();
    }
    if (outcome == MALFORMED) {
        return PyErr_Format(PyExc_ValueError, "the records of the batch at offset %lld are malformed",
                            (long long)header.base_offset);
    }
    return PyLong_FromLongLong(next);
}

static PyObject *
taken_if(int wanted, growing *buffer)
{
    if (!wanted) {
        Py_RETURN_NONE;
    }
    return taken(buffer);
}

static PyObject *
taken_bytes_if(int wanted, bytes_column *column)
{
    if (!wanted) {
        Py_RETURN_NONE;
    }
    return taken_bytes(column);
}

static PyObject *
taken_headers_if(int wanted, record_columns *self)
{
    if (!wanted) {
        Py_RETURN_NONE;
    }
    Py_ssize_t nulls = (Py_ssize_t)self->header_lists.nulls, items = (Py_ssize_t)self->header_key.validity.items;
    return Py_BuildValue("(NNnnNN)", taken_validity(&self->header_lists), taken(&self->header_offsets), nulls, items,
                         taken_bytes(&self->header_key), taken_bytes(&self->header_value));
}

static PyObject *
columns_take(PyObject *object, PyObject *Py_UNUSED(nothing))
{
    record_columns *self = (record_columns *)object;
    if (columns_enter(self) < 0) {
        return NULL;
    }
    if (reserve_rows(self, 0) < 0) {
        return PyErr_NoMemory();
    }
    long long rows = self->rows;
    int want = self->want;
    self->rows = 0;
    self->held = 0;
    return Py_BuildValue("(LNNNNNN)", rows, taken_bytes_if(want & WANT_KEY, &self->key),
                         taken_bytes_if(want & WANT_VALUE, &self->value), taken_if(want & WANT_OFFSET, &self->offset),
                         taken_if(want & WANT_TIMESTAMP, &self->timestamp),
                         taken_if(want & WANT_TIMESTAMP_TYPE, &self->timestamp_type),
                         taken_headers_if(want & WANT_HEADERS, self));
}

static PyObject *
columns_rows(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((record_columns *)object)->rows);
}

static PyObject *
columns_bytes(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((record_columns *)object)->held);
}

static PyMethodDef columns_methods[] = {
    {"append_run", (PyCFunction)(void (*)(void))columns_append_run, METH_FASTCALL, NULL},
    {"append_batch", (PyCFunction)(void (*)(void))columns_append_batch, METH_FASTCALL, NULL},
    {"take", columns_take, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef columns_fields[] = {
    {"rows", columns_rows, NULL, NULL, NULL},
    {"bytes", columns_bytes, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_doc, "Record batches as columns in Arrow's layout; see moldau.kernels."},
    {Py_tp_new, columns_new},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_fields},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    .name = "moldau.kernels._native.RecordColumns",
    .basicsize = sizeof(record_columns),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = columns_slots,
};

static int
add_columns(PyObject *module)
{
    column_buffer_type = (PyTypeObject *)PyType_FromSpec(&column_buffer_spec);
    PyObject *type = PyType_FromSpec(&columns_spec);
    int added = column_buffer_type == NULL || type == NULL ? -1 : PyModule_AddObjectRef(module, "RecordColumns", type);
    Py_XDECREF(type);
    return added;
}

#endif
