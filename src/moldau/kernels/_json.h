/* Rows of JSON to one text with a line for each row, as readers of JSON lines want it.
 *
 * A row is taken if it is one whole object and nothing else: it begins with "{", its brackets and strings are closed,
 * the first only at its end, and its text is UTF-8. Whether what stands inside is right JSON is left to the reader, which
 * now cannot lose its place: every line is one row. Null rows, and rows that are not taken, become "{}".
 *
 * Uses bytes_source of _sources.h, utf8_step of _columns.h and wrong_argument_count of _native.c. The twin: json_rows.py.
 */
#ifndef MOLDAU_JSON_H
#define MOLDAU_JSON_H

#include "_columns.h"
#include "_sources.h"

static inline int
is_json_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline const uint8_t *
skip_json_space(const uint8_t *p, const uint8_t *end)
{
    while (p < end && is_json_space(*p)) {
        p++;
    }
    return p;
}

/* The position behind the closing quote of a string whose opening quote is behind us, or NULL. */
static const uint8_t *
skip_json_string(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        uint8_t c = *p;
        if (c == '"') {
            return p + 1;
        }
        if (c == '\\') {
            p += p + 1 < end && p[1] < 0x80 ? 2 : 1;
        }
        else if (c < 0x80) {
            p++;
        }
        else {
            int step = utf8_step(p, end);
            if (step < 0) {
                return NULL;
            }
            p += step;
        }
    }
    return NULL;
}

static int
is_one_json_object(const uint8_t *p, int64_t length)
{
    const uint8_t *end = p + length;
    int64_t depth = 0;
    p = skip_json_space(p, end);
    if (p == end || *p != '{') {
        return 0;
    }
    while (p < end) {
        uint8_t c = *p++;
        if (c == '"') {
            p = skip_json_string(p, end);
            if (p == NULL) {
                return 0;
            }
        }
        else if (c == '{' || c == '[') {
            depth++;
        }
        else if (c == '}' || c == ']') {
            if (--depth == 0) {
                return skip_json_space(p, end) == end;
            }
        }
        else if (c >= 0x80) {
            return 0;
        }
    }
    return 0;
}

static int
write_json_line(growing *lines, const uint8_t *row, int64_t length)
{
    if (reserve(lines, (size_t)length + 1) < 0) {
        return -1;
    }
    memcpy(lines->bytes + lines->used, row, (size_t)length);
    lines->used += (size_t)length;
    lines->bytes[lines->used++] = '\n';
    return 0;
}

static PyObject *
native_json_lines(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    bytes_source column = {0};
    if (wrong_argument_count("json_lines", given, 2, 2) < 0) {
        return NULL;
    }
    int64_t rows = PyLong_AsLongLong(args[1]);
    if ((rows == -1 && PyErr_Occurred()) || open_bytes(args[0], &column) < 0) {
        return NULL;
    }
    growing lines = {0}, refused = {0};
    int problem = rows < 0 || rows > column.room ? 1 : 0;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t row = 0; row < rows && !problem; row++) {
        const uint8_t *bytes;
        int64_t length;
        if (!read_bytes_at(&column, row, &bytes, &length)) {
            problem = 1;
        }
        else if (length >= 0 && is_one_json_object(bytes, length)) {
            problem = write_json_line(&lines, bytes, length) < 0 ? 2 : 0;
        }
        else {
            problem = write_json_line(&lines, (const uint8_t *)"{}", 2) < 0 ? 2 : 0;
            if (length >= 0 && !problem) {
                problem = reserve(&refused, sizeof row) < 0 ? 2 : 0;
                if (!problem) {
                    push_int64(&refused, row);
                }
            }
        }
    }
    Py_END_ALLOW_THREADS
    close_bytes(&column);
    PyObject *result = NULL;
    if (problem == 2) {
        PyErr_NoMemory();
    }
    else if (problem) {
        PyErr_SetString(PyExc_ValueError, "the column does not hold these rows");
    }
    else {
        PyObject *numbers = tuple_of_numbers((const int64_t *)(void *)refused.bytes, (Py_ssize_t)(refused.used / 8));
        /* "N" takes over the reference, also of NULL, which makes the result NULL. */
        result = Py_BuildValue("(NN)", taken(&lines), numbers);
    }
    PyMem_RawFree(lines.bytes);
    PyMem_RawFree(refused.bytes);
    return result;
}

#endif
