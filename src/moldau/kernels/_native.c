/* Compiled kernels over Kafka record batches. Layouts and the reading of records: _records.h; checksum: _crc32c.h.
 *
 * Each function has a twin of the same name and meaning in python.py; property tests hold the two equal.
 * All take any C-contiguous buffer. The interpreter's lock is released where that pays (see worth_releasing).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_crc32c.h"
#include "_records.h"

/* From how many bytes on the interpreter's lock is released. A background thread should do so often, for the event loop
 * waits for it. The event loop, in the main thread, should not: 1 MB is about 0.1 ms of work, but if another thread
 * computes in Python it keeps the lock, once it has it, for the interpreter's switch interval of 5 ms. */
#define RELEASE_FROM_IN_THREADS 8192
#define RELEASE_FROM_IN_MAIN_THREAD (1 << 20)

static unsigned long main_thread;

static inline int
worth_releasing(Py_ssize_t bytes)
{
    return bytes >= RELEASE_FROM_IN_THREADS &&
           (bytes >= RELEASE_FROM_IN_MAIN_THREAD || PyThread_get_thread_ident() != main_thread);
}

typedef struct {
    Py_buffer buffer;
    const uint8_t *start;
    Py_ssize_t position;
    Py_ssize_t limit;
} window;

static int
open_window(window *w, PyObject *const *args)
{
    w->position = PyLong_AsSsize_t(args[1]);
    if (w->position == -1 && PyErr_Occurred()) {
        return -1;
    }
    w->limit = PyLong_AsSsize_t(args[2]);
    if (w->limit == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (PyObject_GetBuffer(args[0], &w->buffer, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (w->position < 0 || w->position > w->limit || w->limit > w->buffer.len) {
        PyErr_Format(PyExc_ValueError, "window %zd..%zd lies outside the buffer of %zd bytes", w->position, w->limit,
                     w->buffer.len);
        PyBuffer_Release(&w->buffer);
        return -1;
    }
    w->start = (const uint8_t *)w->buffer.buf;
    return 0;
}

static int
wrong_argument_count(const char *name, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most)
{
    if (given >= least && given <= most) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, %zd given", name, least, most, given);
    return -1;
}

static int
read_count(PyObject *object, int32_t *count)
{
    long value = PyLong_AsLong(object);
    if (value == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (value < INT32_MIN || value > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the count of records is an int32");
        return -1;
    }
    *count = (int32_t)value;
    return 0;
}

static PyObject *
tuple_of_numbers(const int64_t *values, Py_ssize_t size)
{
    PyObject *tuple = PyTuple_New(size);
    if (tuple == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (number == NULL) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, number);
    }
    return tuple;
}

/* ---- checksum --------------------------------------------------------------------------------------------------- */

static PyObject *
checksum_with(crc_function update, const char *name, PyObject *const *args, Py_ssize_t given)
{
    if (wrong_argument_count(name, given, 1, 2) < 0) {
        return NULL;
    }
    unsigned long value = 0;
    if (given == 2) {
        value = PyLong_AsUnsignedLongMask(args[1]);
        if (value == (unsigned long)-1 && PyErr_Occurred()) {
            return NULL;
        }
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    uint32_t state = ~(uint32_t)value;
    if (worth_releasing(buffer.len)) {
        Py_BEGIN_ALLOW_THREADS
        state = update(state, (const uint8_t *)buffer.buf, (size_t)buffer.len);
        Py_END_ALLOW_THREADS
    }
    else {
        state = update(state, (const uint8_t *)buffer.buf, (size_t)buffer.len);
    }
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(~state & 0xFFFFFFFFul);
}

static PyObject *
native_crc32c(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    return checksum_with(crc_update, "crc32c", args, given);
}

static PyObject *
native_crc32c_portable(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    return checksum_with(crc_portable, "crc32c_portable", args, given);
}

/* ---- one batch -------------------------------------------------------------------------------------------------- */

static enum batch_status
examine_batch(const uint8_t *p, int64_t available, int with_records, batch_header *header, walk_result *walked)
{
    int64_t size;
    enum batch_status status = frame_batch(p, available, &size);
    if (status == OK && available < size) {
        status = TRUNCATED;
    }
    if (status != OK) {
        header->size = size;
        return status;
    }
    load_header(p, header);
    header->size = size;
    if (crc32c(0, p + CRC_STARTS_AT, (size_t)(size - CRC_STARTS_AT)) != header->crc) {
        return BAD_CRC;
    }
    if (!with_records) {
        return OK;
    }
    if (header->count <= 0 || header->count - 1 != header->last_offset_delta) {
        return BAD_COUNT;
    }
    if (header->attributes & CODEC_MASK) {
        return COMPRESSED;
    }
    return walk_records(p + HEADER_SIZE, p + size, header->count, header->base_timestamp, walked);
}

static PyObject *
native_check_batch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    window w;
    int with_records = 1;
    if (wrong_argument_count("check_batch", given, 3, 4) < 0) {
        return NULL;
    }
    if (given == 4 && (with_records = PyObject_IsTrue(args[3])) < 0) {
        return NULL;
    }
    if (open_window(&w, args) < 0) {
        return NULL;
    }
    batch_header header = {.base_offset = -1,
                           .leader_epoch = -1,
                           .attributes = -1,
                           .last_offset_delta = -1,
                           .base_timestamp = -1,
                           .max_timestamp = -1,
                           .producer_id = -1,
                           .producer_epoch = -1,
                           .base_sequence = -1,
                           .count = -1};
    walk_result walked = NOTHING_WALKED;
    enum batch_status status;
    const uint8_t *p = w.start + w.position;
    int64_t available = w.limit - w.position;
    if (worth_releasing((Py_ssize_t)available)) {
        Py_BEGIN_ALLOW_THREADS
        status = examine_batch(p, available, with_records, &header, &walked);
        Py_END_ALLOW_THREADS
    }
    else {
        status = examine_batch(p, available, with_records, &header, &walked);
    }
    PyBuffer_Release(&w.buffer);
    const int64_t fields[] = {status,
                              header.size,
                              header.base_offset,
                              header.leader_epoch,
                              header.attributes,
                              header.last_offset_delta,
                              header.base_timestamp,
                              header.max_timestamp,
                              header.producer_id,
                              header.producer_epoch,
                              header.base_sequence,
                              header.count,
                              walked.max_timestamp,
                              walked.offset_of_max_timestamp,
                              walked.first_null_key};
    return tuple_of_numbers(fields, sizeof fields / sizeof *fields);
}

static PyObject *
native_check_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    int32_t count;
    if (wrong_argument_count("check_records", given, 3, 3) < 0 || read_count(args[1], &count) < 0) {
        return NULL;
    }
    int64_t base_timestamp = PyLong_AsLongLong(args[2]);
    if (base_timestamp == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const uint8_t *p = (const uint8_t *)buffer.buf, *end = p + buffer.len;
    walk_result walked = NOTHING_WALKED;
    enum batch_status status = BAD_COUNT;
    if (count > 0 && worth_releasing(buffer.len)) {
        Py_BEGIN_ALLOW_THREADS
        status = walk_records(p, end, count, base_timestamp, &walked);
        Py_END_ALLOW_THREADS
    }
    else if (count > 0) {
        status = walk_records(p, end, count, base_timestamp, &walked);
    }
    PyBuffer_Release(&buffer);
    const int64_t fields[] = {status, walked.max_timestamp, walked.offset_of_max_timestamp, walked.first_null_key};
    return tuple_of_numbers(fields, sizeof fields / sizeof *fields);
}

/* ---- many batches, headers only --------------------------------------------------------------------------------- */

static PyObject *
native_scan_batches(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    window w;
    if (wrong_argument_count("scan_batches", given, 3, 3) < 0 || open_window(&w, args) < 0) {
        return NULL;
    }
    PyObject *batches = PyList_New(0);
    int64_t size;
    while (batches != NULL && frame_batch(w.start + w.position, w.limit - w.position, &size) == OK &&
           size <= w.limit - w.position) {
        batch_header header;
        load_header(w.start + w.position, &header);
        const int64_t fields[] = {header.base_offset,
                                  wrapping_sum(header.base_offset, header.last_offset_delta),
                                  w.position,
                                  size,
                                  header.max_timestamp,
                                  header.leader_epoch};
        PyObject *entry = tuple_of_numbers(fields, sizeof fields / sizeof *fields);
        if (entry == NULL || PyList_Append(batches, entry) < 0) {
            Py_CLEAR(batches);
        }
        Py_XDECREF(entry);
        w.position += (Py_ssize_t)size;
    }
    PyBuffer_Release(&w.buffer);
    return batches;
}

/* Small enough that a run of batches is checked without handing over the interpreter's lock. */
#define SMALL_BATCH 4096

static PyObject *
native_check_run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    window w;
    if (wrong_argument_count("check_run", given, 6, 6) < 0) {
        return NULL;
    }
    int64_t next_offset = PyLong_AsLongLong(args[3]);
    if (next_offset == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int64_t leader_epoch = PyLong_AsLongLong(args[4]);
    if (leader_epoch == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int64_t room = PyLong_AsLongLong(args[5]);
    if ((room == -1 && PyErr_Occurred()) || open_window(&w, args) < 0) {
        return NULL;
    }
    const Py_ssize_t origin = w.position;
    int64_t size, max_timestamp = -1, offset_of_max = -1;
    while (w.position - origin <= room && frame_batch(w.start + w.position, w.limit - w.position, &size) == OK &&
           size <= w.limit - w.position && size <= SMALL_BATCH) {
        const uint8_t *p = w.start + w.position;
        batch_header header;
        load_header(p, &header);
        int64_t last_offset = wrapping_sum(header.base_offset, header.last_offset_delta);
        if (header.producer_id >= 0 || (header.attributes & CONTROL) || header.leader_epoch != leader_epoch ||
            header.base_offset < next_offset || last_offset < header.base_offset ||
            crc32c(0, p + CRC_STARTS_AT, (size_t)(size - CRC_STARTS_AT)) != header.crc) {
            break;
        }
        if (header.max_timestamp > max_timestamp) {
            max_timestamp = header.max_timestamp;
            offset_of_max = last_offset;
        }
        next_offset = wrapping_sum(last_offset, 1);
        w.position += (Py_ssize_t)size;
    }
    PyBuffer_Release(&w.buffer);
    const int64_t fields[] = {w.position, next_offset, max_timestamp, offset_of_max};
    return tuple_of_numbers(fields, sizeof fields / sizeof *fields);
}

/* Hops from header to header. True: `w->position` is at the first batch that ends at or behind `target`. False: it is
 * where the hop ended, at or beyond the limit or at something that is no batch. */
static int
hop_to_offset(window *w, int64_t target)
{
    int64_t size;
    while (w->position < w->limit && frame_batch(w->start + w->position, w->limit - w->position, &size) == OK) {
        batch_header header;
        load_header(w->start + w->position, &header);
        if (wrapping_sum(header.base_offset, header.last_offset_delta) >= target) {
            return 1;
        }
        w->position += (Py_ssize_t)size;
    }
    return 0;
}

static int
hop_with_arguments(const char *name, PyObject *const *args, Py_ssize_t given, Py_ssize_t *position)
{
    window w;
    if (wrong_argument_count(name, given, 4, 4) < 0) {
        return -1;
    }
    int64_t target = PyLong_AsLongLong(args[3]);
    if ((target == -1 && PyErr_Occurred()) || open_window(&w, args) < 0) {
        return -1;
    }
    int found = hop_to_offset(&w, target);
    PyBuffer_Release(&w.buffer);
    *position = w.position;
    return found;
}

static PyObject *
native_locate_batch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Py_ssize_t position;
    int found = hop_with_arguments("locate_batch", args, given, &position);
    return found < 0 ? NULL : PyLong_FromSsize_t(found ? position : -1);
}

static PyObject *
native_seek_batch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Py_ssize_t position;
    int found = hop_with_arguments("seek_batch", args, given, &position);
    return found < 0 ? NULL : Py_BuildValue("(On)", found ? Py_True : Py_False, position);
}

/* ---- records as Python objects ---------------------------------------------------------------------------------- */

typedef PyObject *(*record_builder)(const record_fields *record, const uint8_t *origin);

static PyObject *
bytes_or_none(const uint8_t *bytes, int32_t length)
{
    if (length < 0) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromStringAndSize((const char *)bytes, length);
}

static PyObject *
build_headers(const record_fields *record)
{
    PyObject *headers = PyTuple_New(record->header_count);
    const uint8_t *p = record->headers;
    for (int32_t i = 0; headers != NULL && i < record->header_count; i++) {
        const uint8_t *key, *value;
        int32_t key_length, value_length;
        PyObject *pair = NULL;
        p = read_header_pair(p, record->end, &key, &key_length, &value, &value_length);
        if (p == NULL) {
            PyErr_SetString(PyExc_ValueError, "malformed record");
        }
        else {
            /* "N" takes over the reference, also of NULL, which makes the result NULL. */
            pair = Py_BuildValue("(NN)", PyUnicode_DecodeUTF8((const char *)key, key_length, "surrogateescape"),
                                 bytes_or_none(value, value_length));
        }
        if (pair == NULL) {
            Py_CLEAR(headers);
        }
        else {
            PyTuple_SET_ITEM(headers, i, pair);
        }
    }
    return headers;
}

static PyObject *
build_full_record(const record_fields *record, const uint8_t *origin)
{
    return Py_BuildValue("(iLiNNNnn)", (int)record->offset_delta, (long long)record->timestamp_delta,
                         (int)record->attributes, bytes_or_none(record->key, record->key_length),
                         bytes_or_none(record->value, record->value_length), build_headers(record),
                         (Py_ssize_t)(record->start - origin), (Py_ssize_t)(record->end - origin));
}

static PyObject *
build_span(const record_fields *record, const uint8_t *origin)
{
    return Py_BuildValue("(iLNOnn)", (int)record->offset_delta, (long long)record->timestamp_delta,
                         bytes_or_none(record->key, record->key_length),
                         record->value_length < 0 ? Py_False : Py_True, (Py_ssize_t)(record->start - origin),
                         (Py_ssize_t)(record->end - origin));
}

static PyObject *
list_records(const char *name, PyObject *const *args, Py_ssize_t given, record_builder build)
{
    int32_t count;
    Py_buffer buffer;
    if (wrong_argument_count(name, given, 2, 2) < 0 || read_count(args[1], &count) < 0 ||
        PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const uint8_t *origin = (const uint8_t *)buffer.buf, *end = origin + buffer.len, *p = origin;
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list != NULL && i < count; i++) {
        record_fields record;
        PyObject *entry = NULL;
        p = read_record(p, end, &record);
        if (p == NULL) {
            PyErr_Format(PyExc_ValueError, "record %d of %d is malformed", (int)i, (int)count);
        }
        else {
            entry = build(&record, origin);
        }
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
    }
    if (list != NULL && p != end) {
        PyErr_Format(PyExc_ValueError, "%zd bytes follow the last of %d records", (Py_ssize_t)(end - p), (int)count);
        Py_CLEAR(list);
    }
    PyBuffer_Release(&buffer);
    return list;
}

static PyObject *
native_decode_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    return list_records("decode_records", args, given, build_full_record);
}

static PyObject *
native_records_spans(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    return list_records("records_spans", args, given, build_span);
}

/* 1: found, `*record` holds it; 0: not there; -1: malformed. */
static int
find_timestamp(const uint8_t *p, const uint8_t *end, int32_t count, int64_t base_timestamp, int64_t target,
               int32_t least_offset_delta, record_fields *record)
{
    for (int32_t i = 0; i < count; i++) {
        p = read_record(p, end, record);
        if (p == NULL) {
            return -1;
        }
        if (wrapping_sum(base_timestamp, record->timestamp_delta) >= target &&
            record->offset_delta >= least_offset_delta) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
native_seek_timestamp(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    int32_t count, least_offset_delta = 0;
    if (wrong_argument_count("seek_timestamp", given, 4, 5) < 0 || read_count(args[1], &count) < 0 ||
        (given == 5 && read_count(args[4], &least_offset_delta) < 0)) {
        return NULL;
    }
    int64_t base_timestamp = PyLong_AsLongLong(args[2]);
    if (base_timestamp == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int64_t target = PyLong_AsLongLong(args[3]);
    if (target == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const uint8_t *p = (const uint8_t *)buffer.buf;
    record_fields record;
    int found;
    if (worth_releasing(buffer.len)) {
        Py_BEGIN_ALLOW_THREADS
        found = find_timestamp(p, p + buffer.len, count, base_timestamp, target, least_offset_delta, &record);
        Py_END_ALLOW_THREADS
    }
    else {
        found = find_timestamp(p, p + buffer.len, count, base_timestamp, target, least_offset_delta, &record);
    }
    PyBuffer_Release(&buffer);
    if (found < 0) {
        PyErr_SetString(PyExc_ValueError, "a record is malformed");
        return NULL;
    }
    if (found == 0) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(iL)", (int)record.offset_delta,
                         (long long)wrapping_sum(base_timestamp, record.timestamp_delta));
}

/* ---- columns ---------------------------------------------------------------------------------------------------- */

#include "_columns_type.h"

/* ---- rows to records: uses wrong_argument_count ------------------------------------------------------------------ */

#include "_encode.h"
#include "_digest.h"

/* ---- rows of JSON ----------------------------------------------------------------------------------------------- */

#include "_json.h"

/* ---- commits of offsets ----------------------------------------------------------------------------------------- */

#include "_offsets.h"

/* ---- module ----------------------------------------------------------------------------------------------------- */

#define FAST(name) {#name, (PyCFunction)(void (*)(void))native_##name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    FAST(crc32c),       FAST(crc32c_portable), FAST(check_batch),    FAST(check_records),
    FAST(scan_batches), FAST(check_run), FAST(locate_batch),    FAST(seek_batch),     FAST(decode_records),
    FAST(records_spans), FAST(seek_timestamp), FAST(skim_batches), FAST(json_lines), FAST(murmur2),     FAST(route_rows),     FAST(order_rows),
    FAST(encode_records), FAST(digest_rows), FAST(pack_commit), {NULL, NULL, 0, NULL},
};

static int
find_main_thread(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading == NULL ? NULL : PyObject_CallMethod(threading, "main_thread", NULL);
    PyObject *ident = thread == NULL ? NULL : PyObject_GetAttrString(thread, "ident");
    if (ident != NULL) {
        main_thread = PyLong_AsUnsignedLong(ident);
    }
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static int
execute_module(PyObject *module)
{
    crc_prepare();
    if (find_main_thread() < 0 || add_columns(module) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(module, "CRC32C_BY", crc_name);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "moldau.kernels._native",
    .m_doc = "Compiled kernels over Kafka record batches; see moldau.kernels.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
