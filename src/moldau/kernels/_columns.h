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
 * The layout of batches and records: _records.h. What Python sees of it: _columns_type.h. The twin: columns.py.
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

#endif
