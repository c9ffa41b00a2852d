/* Rows in Arrow's columns, handed over from Python: opened, checked, read. For _encode.h and _digest.h.
 *
 * Columns, as tuples of buffers in Arrow's layout (`first` is where row 0 stands in them):
 *   bytes:    (validity bits or None, offsets int32 or int64 (wide), data, first, wide)
 *   numbers:  (validity bits or None, values int64 or int32, first)
 *   headers:  (validity bits or None, offsets int32 or int64 (wide), first, wide, bytes column of keys, of values)
 *
 * What stands in the buffers is checked before it is used; a wrong offset or row number is a ValueError.
 */
#ifndef MOLDAU_SOURCES_H
#define MOLDAU_SOURCES_H

#include <string.h>

typedef struct {
    Py_buffer buffers[3];
    int held;
    const uint8_t *validity;
    const uint8_t *offsets;
    const uint8_t *data;
    int64_t data_length;
    int64_t first;
    int64_t room; /* rows that validity and offsets cover, from `first` on */
    int wide;
} bytes_source;

typedef struct {
    Py_buffer buffers[2];
    int held;
    const uint8_t *validity;
    const uint8_t *values;
    int64_t first;
    int64_t room;
} numbers_source;

typedef struct {
    Py_buffer buffers[2];
    int held;
    const uint8_t *validity;
    const uint8_t *offsets;
    int64_t first;
    int64_t room;
    int wide;
    bytes_source keys;
    bytes_source values;
} headers_source;

typedef struct {
    bytes_source key;
    int has_key;
    bytes_source value;
    int has_value;
    headers_source headers;
    int has_headers;
    numbers_source timestamps;
    int has_timestamps;
} row_sources;

enum encode_problem { FINE, BAD_ROW, BAD_OFFSETS_IN_COLUMN, NULL_HEADER_KEY, RECORD_TOO_LARGE, NO_SUCH_PARTITION };

/* ---- opening columns -------------------------------------------------------------------------------------------- */

static void
release_buffers(Py_buffer *buffers, int *held)
{
    while (*held > 0) {
        PyBuffer_Release(&buffers[--*held]);
    }
}

static int
hold_buffer(PyObject *object, Py_buffer *buffers, int *held, const uint8_t **start, int64_t *length)
{
    if (PyObject_GetBuffer(object, &buffers[*held], PyBUF_SIMPLE) < 0) {
        return -1;
    }
    *start = (const uint8_t *)buffers[*held].buf;
    *length = (int64_t)buffers[*held].len;
    ++*held;
    return 0;
}

static int
hold_validity(PyObject *object, Py_buffer *buffers, int *held, const uint8_t **validity, int64_t *room)
{
    *validity = NULL;
    *room = INT64_MAX;
    if (object == Py_None) {
        return 0;
    }
    int64_t length;
    if (hold_buffer(object, buffers, held, validity, &length) < 0) {
        return -1;
    }
    *room = length * 8;
    return 0;
}

static int
column_shape(PyObject *column, Py_ssize_t size, Py_ssize_t first_at, int64_t *first)
{
    if (!PyTuple_Check(column) || PyTuple_GET_SIZE(column) != size) {
        PyErr_Format(PyExc_TypeError, "a column is a tuple of %zd", size);
        return -1;
    }
    *first = PyLong_AsLongLong(PyTuple_GET_ITEM(column, first_at));
    if (*first == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (*first < 0) {
        PyErr_SetString(PyExc_ValueError, "a column starts before its buffers");
        return -1;
    }
    return 0;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void
close_bytes(bytes_source *column)
{
    release_buffers(column->buffers, &column->held);
}

static int
open_bytes(PyObject *tuple, bytes_source *column)
{
    int64_t bits, length;
    if (column_shape(tuple, 5, 3, &column->first) < 0 ||
        (column->wide = PyObject_IsTrue(PyTuple_GET_ITEM(tuple, 4))) < 0) {
        return -1;
    }
    if (hold_validity(PyTuple_GET_ITEM(tuple, 0), column->buffers, &column->held, &column->validity, &bits) < 0 ||
        hold_buffer(PyTuple_GET_ITEM(tuple, 1), column->buffers, &column->held, &column->offsets, &length) < 0 ||
        hold_buffer(PyTuple_GET_ITEM(tuple, 2), column->buffers, &column->held, &column->data, &column->data_length) < 0) {
        close_bytes(column);
        return -1;
    }
    column->room = smaller(bits, length / (column->wide ? 8 : 4) - 1) - column->first;
    return 0;
}

static void
close_numbers(numbers_source *column)
{
    release_buffers(column->buffers, &column->held);
}

static int
open_numbers(PyObject *tuple, int width, numbers_source *column)
{
    int64_t bits, length;
    if (column_shape(tuple, 3, 2, &column->first) < 0) {
        return -1;
    }
    if (hold_validity(PyTuple_GET_ITEM(tuple, 0), column->buffers, &column->held, &column->validity, &bits) < 0 ||
        hold_buffer(PyTuple_GET_ITEM(tuple, 1), column->buffers, &column->held, &column->values, &length) < 0) {
        close_numbers(column);
        return -1;
    }
    column->room = smaller(bits, length / width) - column->first;
    return 0;
}

static void
close_headers(headers_source *column)
{
    release_buffers(column->buffers, &column->held);
    close_bytes(&column->keys);
    close_bytes(&column->values);
}

static int
open_headers(PyObject *tuple, headers_source *column)
{
    int64_t bits, length;
    if (column_shape(tuple, 6, 2, &column->first) < 0 ||
        (column->wide = PyObject_IsTrue(PyTuple_GET_ITEM(tuple, 3))) < 0) {
        return -1;
    }
    if (hold_validity(PyTuple_GET_ITEM(tuple, 0), column->buffers, &column->held, &column->validity, &bits) < 0 ||
        hold_buffer(PyTuple_GET_ITEM(tuple, 1), column->buffers, &column->held, &column->offsets, &length) < 0 ||
        open_bytes(PyTuple_GET_ITEM(tuple, 4), &column->keys) < 0 ||
        open_bytes(PyTuple_GET_ITEM(tuple, 5), &column->values) < 0) {
        close_headers(column);
        return -1;
    }
    column->room = smaller(bits, length / (column->wide ? 8 : 4) - 1) - column->first;
    return 0;
}

static void
close_rows(row_sources *rows)
{
    close_bytes(&rows->key);
    close_bytes(&rows->value);
    close_headers(&rows->headers);
    close_numbers(&rows->timestamps);
}

/* Opens (key, value, headers, timestamps), each a column or None, and checks that each covers `length` rows. */
static int
open_rows(PyObject *tuple, int64_t length, row_sources *rows)
{
    memset(rows, 0, sizeof *rows);
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != 4) {
        PyErr_SetString(PyExc_TypeError, "rows are a tuple of the columns key, value, headers, timestamps");
        return -1;
    }
    PyObject *key = PyTuple_GET_ITEM(tuple, 0), *value = PyTuple_GET_ITEM(tuple, 1);
    PyObject *headers = PyTuple_GET_ITEM(tuple, 2), *timestamps = PyTuple_GET_ITEM(tuple, 3);
    rows->has_key = key != Py_None;
    rows->has_value = value != Py_None;
    rows->has_headers = headers != Py_None;
    rows->has_timestamps = timestamps != Py_None;
    if ((rows->has_key && open_bytes(key, &rows->key) < 0) || (rows->has_value && open_bytes(value, &rows->value) < 0) ||
        (rows->has_headers && open_headers(headers, &rows->headers) < 0) ||
        (rows->has_timestamps && open_numbers(timestamps, 8, &rows->timestamps) < 0)) {
        close_rows(rows);
        return -1;
    }
    if (length < 0 || (rows->has_key && rows->key.room < length) || (rows->has_value && rows->value.room < length) ||
        (rows->has_headers && rows->headers.room < length) ||
        (rows->has_timestamps && rows->timestamps.room < length)) {
        PyErr_SetString(PyExc_ValueError, "a column is shorter than the rows");
        close_rows(rows);
        return -1;
    }
    return 0;
}

/* ---- reading columns, without Python ---------------------------------------------------------------------------- */

static inline int
is_valid(const uint8_t *validity, int64_t index)
{
    return validity == NULL || (validity[index >> 3] >> (index & 7) & 1);
}

static inline int64_t
load_offset(const uint8_t *offsets, int64_t index, int wide)
{
    if (wide) {
        int64_t value;
        memcpy(&value, offsets + index * 8, 8);
        return value;
    }
    int32_t value;
    memcpy(&value, offsets + index * 4, 4);
    return value;
}

/* The bytes of a row; NULL in `*bytes` and length -1 for null. False if the offsets make no sense. */
static inline int
read_bytes_at(const bytes_source *column, int64_t row, const uint8_t **bytes, int64_t *length)
{
    int64_t index = column->first + row;
    if (!is_valid(column->validity, index)) {
        *bytes = NULL;
        *length = -1;
        return 1;
    }
    int64_t start = load_offset(column->offsets, index, column->wide);
    int64_t end = load_offset(column->offsets, index + 1, column->wide);
    if (start < 0 || end < start || end > column->data_length || end - start > INT32_MAX) {
        return 0;
    }
    *bytes = column->data + start;
    *length = end - start;
    return 1;
}

static inline int
read_number_at(const numbers_source *column, int64_t row, int64_t *value)
{
    int64_t index = column->first + row;
    if (!is_valid(column->validity, index)) {
        return 0;
    }
    memcpy(value, column->values + index * 8, 8);
    return 1;
}

static inline int
read_header_span(const headers_source *column, int64_t row, int64_t *start, int64_t *count)
{
    int64_t index = column->first + row;
    *start = 0;
    *count = 0;
    if (!is_valid(column->validity, index)) {
        return 1;
    }
    int64_t from = load_offset(column->offsets, index, column->wide);
    int64_t to = load_offset(column->offsets, index + 1, column->wide);
    if (from < 0 || to < from || to > column->keys.room || to > column->values.room || to - from > INT32_MAX) {
        return 0;
    }
    *start = from;
    *count = to - from;
    return 1;
}

/* Microseconds, as Spark has them, to Kafka's milliseconds: rounded down, also before 1970. */
static inline int64_t
milliseconds_of(int64_t microseconds)
{
    int64_t quotient = microseconds / 1000;
    return microseconds % 1000 < 0 ? quotient - 1 : quotient;
}

#endif
