/* A digest of rows in Arrow's columns (_sources.h): equal for equal rows in any order. Twin: digest_rows in encode.py. */
#ifndef MOLDAU_DIGEST_H
#define MOLDAU_DIGEST_H

#include "_encode.h"

#define DIGEST_NULL 0x9e3779b97f4a7c15ull

/* The finaliser of splitmix64. */
static inline uint64_t
mix_64(uint64_t h)
{
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 27) * 0x94d049bb133111ebull;
    return h ^ h >> 31;
}

/* MurmurHash64A, little-endian. */
static inline uint64_t
murmur_64(uint64_t seed, const uint8_t *data, int64_t length)
{
    const uint64_t m = 0xc6a4a7935bd1e995ull;
    uint64_t h = seed ^ (uint64_t)length * m;
    int64_t i = 0;
    for (; i + 8 <= length; i += 8) {
        uint64_t k = (uint64_t)data[i] | (uint64_t)data[i + 1] << 8 | (uint64_t)data[i + 2] << 16 |
                     (uint64_t)data[i + 3] << 24 | (uint64_t)data[i + 4] << 32 | (uint64_t)data[i + 5] << 40 |
                     (uint64_t)data[i + 6] << 48 | (uint64_t)data[i + 7] << 56;
        k *= m;
        k ^= k >> 47;
        k *= m;
        h ^= k;
        h *= m;
    }
    if (i < length) {
        uint64_t tail = 0;
        for (int64_t j = i; j < length; j++) {
            tail |= (uint64_t)data[j] << (8 * (j - i));
        }
        h ^= tail;
        h *= m;
    }
    h ^= h >> 47;
    h *= m;
    h ^= h >> 47;
    return h;
}

static inline uint64_t
fold_bytes(uint64_t h, const uint8_t *bytes, int64_t length)
{
    return length < 0 ? mix_64(h ^ DIGEST_NULL) : murmur_64(h, bytes, length);
}

static enum encode_problem
digest_each(const row_sources *rows, int64_t length, const int32_t *topics, const uint64_t *salts, int64_t salt_count,
            const numbers_source *partitions, uint64_t *digest, int64_t *wrong_row)
{
    uint64_t sum = 0;
    for (int64_t row = 0; row < length; row++) {
        row_record record;
        int32_t topic = topics == NULL ? 0 : topics[row];
        *wrong_row = row;
        if (topic < 0 || topic >= salt_count) {
            return BAD_ROW;
        }
        enum encode_problem problem = read_row(rows, row, INT64_MIN, &record);
        if (problem != FINE) {
            return problem;
        }
        uint64_t h = salts[topic];
        int64_t place = partitions == NULL ? 0 : partitions->first + row;
        int32_t partition = -1;
        if (partitions != NULL && is_valid(partitions->validity, place)) {
            memcpy(&partition, partitions->values + place * 4, 4);
        }
        h = mix_64(h + (uint64_t)(int64_t)partition);
        h = mix_64(h + (uint64_t)record.timestamp);
        h = fold_bytes(h, record.key, record.key_length);
        h = fold_bytes(h, record.value, record.value_length);
        for (int64_t i = 0; i < record.header_count; i++) {
            const uint8_t *key = NULL, *value = NULL;
            int64_t key_length = -1, value_length = -1;
            if (!read_bytes_at(&rows->headers.keys, record.first_header + i, &key, &key_length) ||
                !read_bytes_at(&rows->headers.values, record.first_header + i, &value, &value_length)) {
                return BAD_OFFSETS_IN_COLUMN;
            }
            h = fold_bytes(fold_bytes(h, key, key_length), value, value_length);
        }
        sum += mix_64(h + (uint64_t)record.header_count);
    }
    *digest = sum;
    return FINE;
}

/* digest_rows(rows, length, topics, salts, partitions): a sum over the rows, so their order does not matter. */
static PyObject *
native_digest_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    if (wrong_argument_count("digest_rows", given, 5, 5) < 0) {
        return NULL;
    }
    int64_t length = PyLong_AsLongLong(args[1]), size, salt_count;
    if (length == -1 && PyErr_Occurred()) {
        return NULL;
    }
    row_sources rows;
    if (open_rows(args[0], length, &rows) < 0) {
        return NULL;
    }
    numbers_source partitions = {.held = 0};
    Py_buffer buffers[2];
    int held = 0;
    const uint8_t *salts, *topics = NULL;
    PyObject *result = NULL;
    if ((args[4] != Py_None && open_numbers(args[4], 4, &partitions) < 0) ||
        hold_buffer(args[3], buffers, &held, &salts, &salt_count) < 0 ||
        (args[2] != Py_None && hold_buffer(args[2], buffers, &held, &topics, &size) < 0)) {
        goto done;
    }
    if ((topics != NULL && size / 4 < length) || (args[4] != Py_None && partitions.room < length)) {
        PyErr_SetString(PyExc_ValueError, "a column is shorter than the rows");
        goto done;
    }
    uint64_t digest = 0;
    int64_t wrong_row = 0;
    enum encode_problem problem;
    Py_BEGIN_ALLOW_THREADS
    problem = digest_each(&rows, length, (const int32_t *)(const void *)topics, (const uint64_t *)(const void *)salts,
                          salt_count / 8, args[4] == Py_None ? NULL : &partitions, &digest, &wrong_row);
    Py_END_ALLOW_THREADS
    result = problem == FINE ? PyLong_FromUnsignedLongLong(digest) : raise_problem(problem, wrong_row);
done:
    release_buffers(buffers, &held);
    close_numbers(&partitions);
    close_rows(&rows);
    return result;
}

#endif
