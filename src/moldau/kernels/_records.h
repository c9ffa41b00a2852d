/* Kafka's record batch, format v2 (magic 2): header fields and the walk over its records. No Python in this file.
 *
 * Batch, big-endian:
 *    0  int64   base offset
 *    8  int32   length of all that follows this field (batch size - 12)
 *   12  int32   partition leader epoch
 *   16  int8    magic = 2
 *   17  uint32  CRC-32C of all that follows this field
 *   21  int16   attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 has delete horizon
 *   23  int32   last offset delta
 *   27  int64   base timestamp
 *   35  int64   max timestamp
 *   43  int64   producer id
 *   51  int16   producer epoch
 *   53  int32   base sequence
 *   57  int32   count of records
 *   61          records, compressed as a whole if the codec is not 0
 *
 * Record (all numbers zig-zag varints of at most 5 bytes, the timestamp delta of at most 10):
 *   length of what follows, int8 attributes, timestamp delta, offset delta, key length (< 0: null), key,
 *   value length (< 0: null), value, count of headers, then per header: key length, key, value length (< 0: null), value
 *
 * Every function here takes the end of the readable bytes and never looks at or beyond it. A value is loaded once and
 * then checked and used, so bytes that change underneath (the lock of the interpreter may be released) do no harm.
 */
#ifndef MOLDAU_RECORDS_H
#define MOLDAU_RECORDS_H

#include <stddef.h>
#include <stdint.h>

enum {
    LENGTH_AT = 8,
    LOG_OVERHEAD = 12,
    LEADER_EPOCH_AT = 12,
    MAGIC_AT = 16,
    CRC_AT = 17,
    CRC_STARTS_AT = 21,
    HEADER_SIZE = 61,
    SMALLEST_LEGACY_LENGTH = 14,
    MAGIC_V2 = 2,
    CODEC_MASK = 7,
    CONTROL = 0x20,
};

enum batch_status { OK, TRUNCATED, BAD_LENGTH, BAD_MAGIC, BAD_CRC, BAD_COUNT, BAD_RECORD, COMPRESSED, BAD_OFFSETS };

typedef struct {
    int64_t base_offset;
    int64_t size;
    int32_t leader_epoch;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t count;
} batch_header;

typedef struct {
    const uint8_t *start; /* of the length */
    const uint8_t *end;
    int8_t attributes;
    int64_t timestamp_delta;
    int32_t offset_delta;
    const uint8_t *key;
    int32_t key_length;
    const uint8_t *value;
    int32_t value_length;
    int32_t header_count;
    const uint8_t *headers;
} record_fields;

typedef struct {
    int64_t max_timestamp;
    int32_t offset_of_max_timestamp;
    int32_t first_null_key;
} walk_result;

static const walk_result NOTHING_WALKED = {-1, -1, -1};

static inline uint16_t
load_16(const uint8_t *p)
{
    return (uint16_t)((uint32_t)p[0] << 8 | (uint32_t)p[1]);
}

static inline uint32_t
load_32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t
load_64(const uint8_t *p)
{
    return (uint64_t)load_32(p) << 32 | load_32(p + 4);
}

/* As Java's addition: wraps instead of being undefined. */
static inline int64_t
wrapping_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline void
load_header(const uint8_t *p, batch_header *header)
{
    header->base_offset = (int64_t)load_64(p);
    header->size = (int64_t)(int32_t)load_32(p + LENGTH_AT) + LOG_OVERHEAD;
    header->leader_epoch = (int32_t)load_32(p + LEADER_EPOCH_AT);
    header->crc = load_32(p + CRC_AT);
    header->attributes = (int16_t)load_16(p + 21);
    header->last_offset_delta = (int32_t)load_32(p + 23);
    header->base_timestamp = (int64_t)load_64(p + 27);
    header->max_timestamp = (int64_t)load_64(p + 35);
    header->producer_id = (int64_t)load_64(p + 43);
    header->producer_epoch = (int16_t)load_16(p + 51);
    header->base_sequence = (int32_t)load_32(p + 53);
    header->count = (int32_t)load_32(p + 57);
}

/* Reads length and magic. OK: a whole v2 header is in view, header->size is right. The batch itself may reach beyond
 * `available`. Otherwise header->size is 0 or, as far as it can be known, the size the batch claims. */
static inline enum batch_status
frame_batch(const uint8_t *p, int64_t available, int64_t *size)
{
    *size = 0;
    if (available < LOG_OVERHEAD) {
        return TRUNCATED;
    }
    int32_t length = (int32_t)load_32(p + LENGTH_AT);
    if (length < SMALLEST_LEGACY_LENGTH) {
        return BAD_LENGTH;
    }
    if (available <= MAGIC_AT) {
        *size = (int64_t)length + LOG_OVERHEAD;
        return TRUNCATED;
    }
    if (p[MAGIC_AT] != MAGIC_V2) {
        *size = (int64_t)length + LOG_OVERHEAD;
        return BAD_MAGIC;
    }
    if (length < HEADER_SIZE - LOG_OVERHEAD) {
        return BAD_LENGTH;
    }
    *size = (int64_t)length + LOG_OVERHEAD;
    return available < HEADER_SIZE ? TRUNCATED : OK;
}

/* Both return the position behind the number, or NULL if it runs over `end` or is longer than any number may be. As in
 * Java, bits of the last byte that do not fit are dropped. */
static inline const uint8_t *
read_varint(const uint8_t *p, const uint8_t *end, int32_t *value)
{
    uint32_t raw = 0;
    for (int shift = 0; shift <= 28; shift += 7) {
        if (p >= end) {
            return NULL;
        }
        uint8_t byte = *p++;
        raw |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int32_t)((raw >> 1) ^ (0u - (raw & 1u)));
            return p;
        }
    }
    return NULL;
}

static inline const uint8_t *
read_varlong(const uint8_t *p, const uint8_t *end, int64_t *value)
{
    uint64_t raw = 0;
    for (int shift = 0; shift <= 63; shift += 7) {
        if (p >= end) {
            return NULL;
        }
        uint8_t byte = *p++;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)((raw >> 1) ^ (0u - (raw & 1u)));
            return p;
        }
    }
    return NULL;
}

/* A length and as many bytes; any negative length means null, as in Java, and `*length` becomes -1. */
static inline const uint8_t *
read_nullable_bytes(const uint8_t *p, const uint8_t *end, const uint8_t **bytes, int32_t *length)
{
    p = read_varint(p, end, length);
    if (p == NULL) {
        return NULL;
    }
    *bytes = p;
    if (*length < 0) {
        *length = -1;
        return p;
    }
    return *length > end - p ? NULL : p + *length;
}

static inline const uint8_t *
read_header_pair(const uint8_t *p, const uint8_t *end, const uint8_t **key, int32_t *key_length, const uint8_t **value,
                 int32_t *value_length)
{
    p = read_nullable_bytes(p, end, key, key_length);
    if (p == NULL || *key_length < 0) {
        return NULL;
    }
    return read_nullable_bytes(p, end, value, value_length);
}

/* Reads one record whole; returns the position behind it or NULL. */
static inline const uint8_t *
read_record(const uint8_t *p, const uint8_t *limit, record_fields *record)
{
    int32_t length;
    record->start = p;
    p = read_varint(p, limit, &length);
    if (p == NULL || length < 1 || length > limit - p) {
        return NULL;
    }
    const uint8_t *end = p + length;
    record->end = end;
    record->attributes = (int8_t)*p++;
    if ((p = read_varlong(p, end, &record->timestamp_delta)) == NULL ||
        (p = read_varint(p, end, &record->offset_delta)) == NULL ||
        (p = read_nullable_bytes(p, end, &record->key, &record->key_length)) == NULL ||
        (p = read_nullable_bytes(p, end, &record->value, &record->value_length)) == NULL ||
        (p = read_varint(p, end, &record->header_count)) == NULL || record->header_count < 0) {
        return NULL;
    }
    record->headers = p;
    for (int32_t i = 0; i < record->header_count; i++) {
        const uint8_t *key, *value;
        int32_t key_length, value_length;
        p = read_header_pair(p, end, &key, &key_length, &value, &value_length);
        if (p == NULL) {
            return NULL;
        }
    }
    return p == end ? end : NULL;
}

static enum batch_status
walk_records(const uint8_t *p, const uint8_t *end, int32_t count, int64_t base_timestamp, walk_result *result)
{
    walk_result seen = NOTHING_WALKED;
    enum batch_status status = OK;
    for (int32_t index = 0; index < count; index++) {
        record_fields record;
        if (p == end) {
            return BAD_COUNT;
        }
        p = read_record(p, end, &record);
        if (p == NULL) {
            return BAD_RECORD;
        }
        if (record.offset_delta != index) {
            status = BAD_OFFSETS;
        }
        int64_t timestamp = wrapping_sum(base_timestamp, record.timestamp_delta);
        if (timestamp > seen.max_timestamp) {
            seen.max_timestamp = timestamp;
            seen.offset_of_max_timestamp = index;
        }
        if (record.key_length < 0 && seen.first_null_key < 0) {
            seen.first_null_key = index;
        }
    }
    if (p != end) {
        return BAD_RECORD;
    }
    *result = seen;
    return status;
}

#endif
