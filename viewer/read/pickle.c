/* Reads a Python pickle of plain containers. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/pickle.h"

/* The operations of a pickle that builds plain containers; their numbers are those of Python's module pickle. */
enum pickle_operation {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_POP = '0',
    OP_POP_MARK = '1',
    OP_DUP = '2',
    OP_BINBYTES = 'B',
    OP_SHORT_BINBYTES = 'C',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_LIST = 'l',
    OP_DICT = 'd',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_TUPLE = ')',
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_LONG4 = 0x8b,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d,
    OP_BINBYTES8 = 0x8e,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
};

#define PICKLE_BUFFER_BYTES (256 * 1024)

/* Longer texts are refused; no name of a function or file is as long. */
#define PICKLE_TEXT_MAX (UINT64_C(1) << 20)

/* The machine that a pickle is a program of. */
struct pickle_machine {
    struct pickle *pickle;
    const char *path;
    gzFile file;
    const char *fault; /* why the pickle is refused; NULL: nothing so far */
    int operation;
    struct pickle_value *stack;
    size_t depth, stack_capacity;
    size_t *marks; /* places in the stack */
    size_t mark_count, mark_capacity;
    struct pickle_value *memo;
    size_t memo_count, memo_capacity;
};

/* Record why the pickle is refused, unless something else came first. */
static bool
pickle_refuse(struct pickle_machine *machine, const char *fault)
{
    if (machine->fault == NULL)
        machine->fault = fault;
    return false;
}

static bool
pickle_take(struct pickle_machine *machine, void *out, size_t length)
{
    int code = Z_OK;

    if (length == 0)
        return true;
    if (gzread(machine->file, out, (unsigned)length) == (int)length) {
        machine->pickle->bytes += length;
        return true;
    }
    gzerror(machine->file, &code);
    return pickle_refuse(machine, code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR
                                      ? "the pickle ends in the middle"
                                      : "the compressed data is damaged");
}

/* An unsigned number of `width` bytes, the lowest first. */
static bool
pickle_take_number(struct pickle_machine *machine, unsigned width, uint64_t *out)
{
    unsigned char bytes[8] = { 0 };

    if (!pickle_take(machine, bytes, width))
        return false;
    *out = 0;
    for (unsigned i = width; i-- > 0;)
        *out = *out << 8 | bytes[i];
    return true;
}

static bool
pickle_push(struct pickle_machine *machine, struct pickle_value value)
{
    if (!tidei_grow(&machine->stack, &machine->stack_capacity, machine->depth, 1))
        return pickle_refuse(machine, "no memory");
    machine->stack[machine->depth++] = value;
    return true;
}

static bool
pickle_push_integer(struct pickle_machine *machine, int64_t integer)
{
    return pickle_push(machine, (struct pickle_value){ .type = PICKLE_INTEGER, .integer = integer });
}

/* Whether the stack has `count` values above the last mark. */
static bool
pickle_has(struct pickle_machine *machine, size_t count)
{
    size_t bottom = machine->mark_count != 0 ? machine->marks[machine->mark_count - 1] : 0;

    return machine->depth - bottom >= count || pickle_refuse(machine, "damaged: a value is missing on its stack");
}

/* Remove the last mark; *first is the place of the first value above it. */
static bool
pickle_pop_mark(struct pickle_machine *machine, size_t *first)
{
    *first = machine->depth;
    if (machine->mark_count == 0)
        return pickle_refuse(machine, "damaged: a mark is missing on its stack");
    *first = machine->marks[--machine->mark_count];
    return true;
}

static struct pickle_container *
pickle_container_new(struct pickle_machine *machine)
{
    struct pickle_container *container = calloc(1, sizeof(*container));

    if (container == NULL) {
        pickle_refuse(machine, "no memory");
        return NULL;
    }
    container->next = machine->pickle->containers;
    machine->pickle->containers = container;
    return container;
}

/* Move the values from `first` on into `container`, and off the stack. */
static bool
pickle_move(struct pickle_machine *machine, struct pickle_container *container, size_t first)
{
    size_t count = machine->depth - first;

    if (count == 0)
        return true;
    if (!tidei_grow(&container->items, &container->capacity, container->count, count))
        return pickle_refuse(machine, "no memory");
    memcpy(container->items + container->count, machine->stack + first, count * sizeof(*container->items));
    container->count += count;
    machine->depth = first;
    return true;
}

/* Replace the values from `first` on by a container that has them. */
static bool
pickle_gather(struct pickle_machine *machine, enum pickle_type type, size_t first)
{
    struct pickle_container *container = pickle_container_new(machine);

    if (type == PICKLE_DICT && (machine->depth - first) % 2 != 0)
        return pickle_refuse(machine, "damaged: a key without a value");
    return container != NULL && pickle_move(machine, container, first) &&
           pickle_push(machine, (struct pickle_value){ .type = type, .container = container });
}

/* Add the values from `first` on to the container below them. */
static bool
pickle_extend(struct pickle_machine *machine, enum pickle_type type, size_t first)
{
    size_t bottom = machine->mark_count != 0 ? machine->marks[machine->mark_count - 1] : 0;

    if (first <= bottom || machine->stack[first - 1].type != type)
        return pickle_refuse(machine, "damaged: a container is missing on its stack");
    if (type == PICKLE_DICT && (machine->depth - first) % 2 != 0)
        return pickle_refuse(machine, "damaged: a key without a value");
    return pickle_move(machine, machine->stack[first - 1].container, first);
}

static bool
pickle_push_text(struct pickle_machine *machine, unsigned width)
{
    struct pickle_text *text;
    uint64_t length;

    if (!pickle_take_number(machine, width, &length))
        return false;
    if (length > PICKLE_TEXT_MAX)
        return pickle_refuse(machine, "a text is longer than 1 MiB");
    text = malloc(sizeof(*text) + length + 1);
    if (text == NULL)
        return pickle_refuse(machine, "no memory");
    text->next = machine->pickle->texts;
    machine->pickle->texts = text;
    text->length = length;
    text->bytes[length] = '\0';
    return pickle_take(machine, text->bytes, length) &&
           pickle_push(machine, (struct pickle_value){ .type = PICKLE_TEXT, .text = text });
}

/* An integer of `length` bytes in two's complement; of one over 64 bits only that it is none that fits. */
static bool
pickle_push_long(struct pickle_machine *machine, uint64_t length)
{
    unsigned char byte = 0;
    uint64_t number = 0;
    bool fits = true;

    for (uint64_t i = 0; i < length; i++) {
        if (!pickle_take(machine, &byte, 1))
            return false;
        if (i < 8)
            number |= (uint64_t)byte << 8 * i;
        else
            fits = fits && i == 8 && byte == 0;
    }
    if (length > 0 && length < 8 && (byte & 0x80) != 0)
        number |= UINT64_MAX << 8 * length;
    return fits ? pickle_push_integer(machine, (int64_t)number) : pickle_push(machine, (struct pickle_value){ 0 });
}

/* Remember the top of the stack under the number `index`. */
static bool
pickle_memo_put(struct pickle_machine *machine, uint64_t index)
{
    if (!pickle_has(machine, 1))
        return false;
    /* Python numbers them in turn. */
    if (index > machine->memo_count)
        return pickle_refuse(machine, "damaged: a number of its memo is left out");
    if (index == machine->memo_count && !tidei_grow(&machine->memo, &machine->memo_capacity, machine->memo_count, 1))
        return pickle_refuse(machine, "no memory");
    machine->memo[index] = machine->stack[machine->depth - 1];
    machine->memo_count += index == machine->memo_count;
    return true;
}

static bool
pickle_memo_get(struct pickle_machine *machine, uint64_t index)
{
    if (index >= machine->memo_count)
        return pickle_refuse(machine, "damaged: a number of its memo is not there");
    return pickle_push(machine, machine->memo[index]);
}

/* Operations on numbers and texts, which only push. */
static bool
pickle_scalar(struct pickle_machine *machine, int operation)
{
    uint64_t number = 0;

    switch (operation) {
    case OP_NONE:
    case OP_NEWTRUE:
    case OP_NEWFALSE:
        return pickle_push(machine, (struct pickle_value){ 0 });
    case OP_BININT:
        return pickle_take_number(machine, 4, &number) && pickle_push_integer(machine, (int32_t)(uint32_t)number);
    case OP_BININT1:
        return pickle_take_number(machine, 1, &number) && pickle_push_integer(machine, (int64_t)number);
    case OP_BININT2:
        return pickle_take_number(machine, 2, &number) && pickle_push_integer(machine, (int64_t)number);
    case OP_LONG1:
        return pickle_take_number(machine, 1, &number) && pickle_push_long(machine, number);
    case OP_LONG4:
        return pickle_take_number(machine, 4, &number) && pickle_push_long(machine, number);
    case OP_BINFLOAT:
        return pickle_take_number(machine, 8, &number) &&
               pickle_push(machine, (struct pickle_value){ .type = PICKLE_FLOAT });
    case OP_SHORT_BINUNICODE:
    case OP_SHORT_BINSTRING:
    case OP_SHORT_BINBYTES:
        return pickle_push_text(machine, 1);
    case OP_BINUNICODE:
    case OP_BINSTRING:
    case OP_BINBYTES:
        return pickle_push_text(machine, 4);
    case OP_BINUNICODE8:
    case OP_BINBYTES8:
        return pickle_push_text(machine, 8);
    default:
        return pickle_refuse(machine, "it holds more than dict, list, tuple, str, int, float, bool and None: objects "
                                      "of Python are not read");
    }
}

/* Operations on containers. */
static bool
pickle_contain(struct pickle_machine *machine, int operation)
{
    size_t first = machine->depth;

    switch (operation) {
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
        return pickle_gather(machine, PICKLE_LIST, first);
    case OP_EMPTY_DICT:
        return pickle_gather(machine, PICKLE_DICT, first);
    case OP_LIST:
    case OP_TUPLE:
        return pickle_pop_mark(machine, &first) && pickle_gather(machine, PICKLE_LIST, first);
    case OP_DICT:
        return pickle_pop_mark(machine, &first) && pickle_gather(machine, PICKLE_DICT, first);
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
        first = (size_t)(operation - OP_TUPLE1) + 1;
        return pickle_has(machine, first) && pickle_gather(machine, PICKLE_LIST, machine->depth - first);
    case OP_APPEND:
        return pickle_has(machine, 2) && pickle_extend(machine, PICKLE_LIST, machine->depth - 1);
    case OP_APPENDS:
        return pickle_pop_mark(machine, &first) && pickle_extend(machine, PICKLE_LIST, first);
    case OP_SETITEM:
        return pickle_has(machine, 3) && pickle_extend(machine, PICKLE_DICT, machine->depth - 2);
    case OP_SETITEMS:
        return pickle_pop_mark(machine, &first) && pickle_extend(machine, PICKLE_DICT, first);
    default:
        return pickle_scalar(machine, operation);
    }
}

/* Operations on the machine itself. */
static bool
pickle_operate(struct pickle_machine *machine, int operation)
{
    uint64_t number = 0;
    size_t first;

    switch (operation) {
    case OP_PROTO:
        return pickle_take_number(machine, 1, &number);
    case OP_FRAME:
        return pickle_take_number(machine, 8, &number);
    case OP_MARK:
        if (!tidei_grow(&machine->marks, &machine->mark_capacity, machine->mark_count, 1))
            return pickle_refuse(machine, "no memory");
        machine->marks[machine->mark_count++] = machine->depth;
        return true;
    case OP_POP:
        return pickle_has(machine, 1) && machine->depth-- != 0;
    case OP_POP_MARK:
        if (!pickle_pop_mark(machine, &first))
            return false;
        machine->depth = first;
        return true;
    case OP_DUP:
        return pickle_has(machine, 1) && pickle_push(machine, machine->stack[machine->depth - 1]);
    case OP_MEMOIZE:
        return pickle_memo_put(machine, machine->memo_count);
    case OP_BINPUT:
        return pickle_take_number(machine, 1, &number) && pickle_memo_put(machine, number);
    case OP_LONG_BINPUT:
        return pickle_take_number(machine, 4, &number) && pickle_memo_put(machine, number);
    case OP_BINGET:
        return pickle_take_number(machine, 1, &number) && pickle_memo_get(machine, number);
    case OP_LONG_BINGET:
        return pickle_take_number(machine, 4, &number) && pickle_memo_get(machine, number);
    default:
        return pickle_contain(machine, operation);
    }
}

static bool
pickle_run(struct pickle_machine *machine)
{
    unsigned char operation;

    for (;;) {
        if (!pickle_take(machine, &operation, 1))
            return false;
        machine->operation = operation;
        if (operation == OP_STOP)
            break;
        if (!pickle_operate(machine, operation))
            return false;
    }
    if (machine->depth != 1 || machine->mark_count != 0)
        return pickle_refuse(machine, "damaged: it does not end with one value");
    machine->pickle->root = machine->stack[0];
    return true;
}

bool
pickle_recognise(const char *path)
{
    gzFile file = gzopen(path, "r");
    bool is_pickle;

    if (file == NULL)
        return false;
    is_pickle = gzgetc(file) == OP_PROTO;
    is_pickle = is_pickle && gzgetc(file) >= 2;
    gzclose(file);
    return is_pickle;
}

int
pickle_read(struct pickle *pickle, const char *path)
{
    struct pickle_machine machine = { .pickle = pickle, .path = path, .file = gzopen(path, "r") };
    bool fine;

    *pickle = (struct pickle){ 0 };
    if (machine.file == NULL) {
        message("%s: cannot be opened", path);
        return COMMAND_WRONG;
    }
    gzbuffer(machine.file, PICKLE_BUFFER_BYTES);
    fine = pickle_run(&machine);
    if (!fine)
        message("%s: offset %" PRIu64 ", operation 0x%02x: %s", path, pickle->bytes > 0 ? pickle->bytes - 1 : 0,
                (unsigned)machine.operation, machine.fault);
    gzclose(machine.file);
    free(machine.stack);
    free(machine.marks);
    free(machine.memo);
    return fine ? COMMAND_FINE : COMMAND_WRONG;
}

void
pickle_free(struct pickle *pickle)
{
    while (pickle->texts != NULL) {
        struct pickle_text *next = pickle->texts->next;

        free(pickle->texts);
        pickle->texts = next;
    }
    while (pickle->containers != NULL) {
        struct pickle_container *next = pickle->containers->next;

        free(pickle->containers->items);
        free(pickle->containers);
        pickle->containers = next;
    }
}
