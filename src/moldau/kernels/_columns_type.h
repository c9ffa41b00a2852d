/* The Python types RecordColumns and ColumnBuffer over _columns.h. Uses window and wrong_argument_count of _native.c. */
#ifndef MOLDAU_COLUMNS_TYPE_H
#define MOLDAU_COLUMNS_TYPE_H

#include "_columns.h"

/* From how many bytes on the interpreter's lock is released: this is work for readers, none for an event loop. */
#define COLUMNS_RELEASE_FROM 8192

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

/* Hops over the whole batches of a region: where they end, the offset behind the last of them, and how many. */
static PyObject *
native_skim_batches(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    window w;
    if (wrong_argument_count("skim_batches", given, 3, 3) < 0 || open_window(&w, args) < 0) {
        return NULL;
    }
    int64_t size, next = -1, count = 0;
    while (frame_batch(w.start + w.position, w.limit - w.position, &size) == OK && size <= w.limit - w.position) {
        batch_header header;
        load_header(w.start + w.position, &header);
        next = wrapping_sum(header.base_offset, (int64_t)header.last_offset_delta + 1);
        w.position += (Py_ssize_t)size;
        count++;
    }
    PyBuffer_Release(&w.buffer);
    const int64_t fields[] = {w.position, next, count};
    return tuple_of_numbers(fields, sizeof fields / sizeof *fields);
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
