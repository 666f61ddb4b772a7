/*
 * Reads allocator traffic from RMM's CSV: `Thread,Time,Action,Pointer,Size,Stream`.
 *
 * The columns are fixed, so that a parser by hand finds them, can say what is wrong with which column of which line,
 * and takes 60 to 100 ns a row. Time is not read: some writers leave it malformed, and the order is that of the lines.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "viewer/command.h"
#include "viewer/output.h"
#include "viewer/progress.h"
#include "viewer/replay-input.h"

#define CSV_HEADER       "Thread,Time,Action,Pointer,Size,Stream"
#define CSV_BUFFER_BYTES (256 * 1024)

/* RMM logs no alignment: it is always this one. */
#define CSV_ALIGNMENT_SHIFT 8

enum { CSV_THREAD, CSV_TIME, CSV_ACTION, CSV_POINTER, CSV_SIZE, CSV_STREAM, CSV_COLUMNS };

static const char *const csv_names[] = { "Thread", "Time", "Action", "Pointer", "Size", "Stream" };

struct csv_field {
    const char *text;
    size_t length;
};

struct csv {
    const char *path;
    gzFile file;  /* owns; reads plain files too */
    char *buffer; /* owns */
    size_t begin; /* what is not taken yet */
    size_t end;
    bool at_end;
    bool blank; /* a line was empty: fine at the end of the file only */
    uint64_t line;
    struct replay_input *input;
    struct id_map live; /* owns; allocations by pointer */
    uint32_t *nulls;    /* owns; live allocations of 0 bytes at pointer 0, of which there may be any number */
    size_t null_count;
    size_t null_capacity;
};

static int
csv_broken(const struct csv *csv, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s:%" PRIu64 ": ", csv->path, csv->line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    putc('\n', stderr);
    return COMMAND_WRONG;
}

static int
csv_field_broken(const struct csv *csv, int column, const struct csv_field *field, const char *expected)
{
    fprintf(stderr, "%s:%" PRIu64 ": column %d (%s): expected %s, seen \"", csv->path, csv->line, column + 1,
            csv_names[column], expected);
    output_text(stderr, field->text, field->length < 40 ? field->length : 40);
    fputs("\"\n", stderr);
    return COMMAND_WRONG;
}

/* More of the file, after what is in the buffer. */
static int
csv_fill(struct csv *csv)
{
    int count;

    memmove(csv->buffer, csv->buffer + csv->begin, csv->end - csv->begin);
    csv->end -= csv->begin;
    csv->begin = 0;
    if (csv->end == CSV_BUFFER_BYTES) {
        csv->line++;
        return csv_broken(csv, "the line is longer than %d bytes", CSV_BUFFER_BYTES);
    }
    count = gzread(csv->file, csv->buffer + csv->end, (unsigned)(CSV_BUFFER_BYTES - csv->end));
    if (count > 0)
        csv->end += (size_t)count;
    csv->at_end = count <= 0;
    if (csv->at_end) {
        int code = Z_OK;
        const char *text = gzerror(csv->file, &code);

        csv->line++;
        /* A stream that ends in the middle reads as a short file and leaves Z_BUF_ERROR. */
        if (code == Z_ERRNO)
            return csv_broken(csv, "%s", strerror(errno));
        if (code == Z_BUF_ERROR)
            return csv_broken(csv, "the compressed data ends too early");
        if (code != Z_OK && code != Z_STREAM_END)
            return csv_broken(csv, "the compressed data is damaged: %s", text);
        csv->line--;
    }
    return COMMAND_FINE;
}

/* The next line without its end; *text is NULL past the last. */
static int
csv_line(struct csv *csv, const char **text, size_t *length)
{
    size_t searched = 0;
    char *newline = NULL;

    *text = NULL;
    for (;;) {
        newline = memchr(csv->buffer + csv->begin + searched, '\n', csv->end - csv->begin - searched);
        if (newline != NULL || csv->at_end)
            break;
        searched = csv->end - csv->begin;
        if (csv_fill(csv) != COMMAND_FINE)
            return COMMAND_WRONG;
    }
    if (newline == NULL && csv->begin == csv->end)
        return COMMAND_FINE;
    csv->line++;
    *text = csv->buffer + csv->begin;
    *length = newline != NULL ? (size_t)(newline - *text) : csv->end - csv->begin;
    csv->begin += *length + (newline != NULL);
    if (*length > 0 && (*text)[*length - 1] == '\r')
        --*length;
    return COMMAND_FINE;
}

static int
csv_split(const struct csv *csv, const char *text, size_t length, struct csv_field *fields)
{
    const char *end = text + length;
    int count = 0;

    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));

        if (count < CSV_COLUMNS)
            fields[count] = (struct csv_field){ text, (size_t)((comma != NULL ? comma : end) - text) };
        count++;
        if (comma == NULL)
            break;
        text = comma + 1;
    }
    if (count != CSV_COLUMNS)
        return csv_broken(csv, "%d column%s, expected %d (" CSV_HEADER ")", count, count == 1 ? "" : "s", CSV_COLUMNS);
    return COMMAND_FINE;
}

static bool
csv_decimal(const struct csv_field *field, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < field->length; i++) {
        unsigned digit = (unsigned)(field->text[i] - '0');

        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return field->length > 0;
}

/* Hexadecimal, with 0x or without; "(nil)" is how some C libraries print a null pointer. */
static bool
csv_hexadecimal(const struct csv_field *field, uint64_t *out)
{
    size_t i = field->length > 2 && field->text[0] == '0' && (field->text[1] == 'x' || field->text[1] == 'X') ? 2 : 0;
    uint64_t value = 0;

    *out = 0;
    if (field->length == 5 && memcmp(field->text, "(nil)", 5) == 0)
        return true;
    if (field->length == i || field->length - i > 16)
        return false;
    for (; i < field->length; i++) {
        unsigned char letter = (unsigned char)field->text[i];
        unsigned digit = letter >= '0' && letter <= '9'   ? letter - 0x30u
                         : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10u
                         : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10u
                                                          : 16;

        if (digit > 15)
            return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static bool
csv_is(const struct csv_field *field, const char *word)
{
    return field->length == strlen(word) && memcmp(field->text, word, field->length) == 0;
}

struct csv_row {
    uint64_t thread;
    uint64_t pointer;
    uint64_t size;
    uint64_t stream;
};

static enum replay_add
csv_allocate(struct csv *csv, const struct csv_row *row)
{
    struct replay_input *input = csv->input;
    uint32_t allocation;
    enum replay_add added =
        replay_input_alloc(input, row->thread, row->stream, row->size, CSV_ALIGNMENT_SHIFT, &allocation);
    uint32_t *earlier;

    if (added != REPLAY_ADD_FINE)
        return added;
    if (row->pointer == 0) {
        uint32_t *nulls = csv->nulls;

        if (csv->null_count == csv->null_capacity) {
            nulls = realloc(nulls, (2 * csv->null_capacity + 64) * sizeof(*nulls));
            if (nulls == NULL)
                return REPLAY_ADD_NO_MEMORY;
            csv->nulls = nulls;
            csv->null_capacity = 2 * csv->null_capacity + 64;
        }
        nulls[csv->null_count++] = allocation;
        return REPLAY_ADD_FINE;
    }
    earlier = id_map_find(&csv->live, row->pointer);
    if (earlier != NULL) {
        input->replaced++;
        *earlier = allocation;
        return REPLAY_ADD_FINE;
    }
    return id_map_add(&csv->live, row->pointer, allocation) ? REPLAY_ADD_FINE : REPLAY_ADD_NO_MEMORY;
}

static enum replay_add
csv_free(struct csv *csv, const struct csv_row *row)
{
    struct replay_input *input = csv->input;
    uint32_t allocation;

    if (row->pointer == 0 && csv->null_count > 0) {
        allocation = csv->nulls[--csv->null_count];
    } else if (!id_map_take(&csv->live, row->pointer, &allocation)) {
        input->unknown_frees++;
        return REPLAY_ADD_FINE;
    }
    if (input->sizes[allocation] != row->size)
        input->size_differences++;
    return replay_input_free(input, row->thread, row->stream, CSV_ALIGNMENT_SHIFT, allocation);
}

static int
csv_row(struct csv *csv, const char *text, size_t length)
{
    struct csv_field fields[CSV_COLUMNS];
    const struct csv_field *action = &fields[CSV_ACTION];
    struct csv_row row;
    enum replay_add added = REPLAY_ADD_FINE;

    if (csv_split(csv, text, length, fields) != COMMAND_FINE)
        return COMMAND_WRONG;
    if (!csv_decimal(&fields[CSV_THREAD], &row.thread))
        return csv_field_broken(csv, CSV_THREAD, &fields[CSV_THREAD], "a number");
    if (!csv_hexadecimal(&fields[CSV_POINTER], &row.pointer))
        return csv_field_broken(csv, CSV_POINTER, &fields[CSV_POINTER], "a hexadecimal address");
    if (!csv_decimal(&fields[CSV_SIZE], &row.size))
        return csv_field_broken(csv, CSV_SIZE, &fields[CSV_SIZE], "a number of bytes");
    if (!csv_hexadecimal(&fields[CSV_STREAM], &row.stream))
        return csv_field_broken(csv, CSV_STREAM, &fields[CSV_STREAM], "a hexadecimal handle");
    csv->input->recorded_events++;
    if (csv_is(action, "allocate"))
        added = csv_allocate(csv, &row);
    else if (csv_is(action, "free") || csv_is(action, "deallocate"))
        added = csv_free(csv, &row);
    else if (csv_is(action, "allocate failure"))
        csv->input->recorded_failures++;
    else
        return csv_field_broken(csv, CSV_ACTION, action, "allocate, allocate failure, free or deallocate");
    return added == REPLAY_ADD_FINE ? COMMAND_FINE : csv_broken(csv, "%s", replay_add_text(added));
}

static int
csv_header(struct csv *csv)
{
    const char *text;
    size_t length;

    if (csv_line(csv, &text, &length) != COMMAND_FINE)
        return COMMAND_WRONG;
    if (text == NULL) {
        csv->line = 1;
        return csv_broken(csv, "the file is empty, expected the header " CSV_HEADER);
    }
    /* The byte order mark that some programs put in front. */
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        length -= 3;
    }
    if (length == strlen(CSV_HEADER) && memcmp(text, CSV_HEADER, length) == 0)
        return COMMAND_FINE;
    return csv_broken(csv, "neither a trace nor allocator traffic: expected the header " CSV_HEADER);
}

static int
csv_rows(struct csv *csv, uint64_t file_bytes)
{
    struct progress progress;
    const char *text = NULL;
    size_t length;
    int status;

    progress_begin(&progress, "reading");
    while ((status = csv_line(csv, &text, &length)) == COMMAND_FINE && text != NULL) {
        if (length == 0) {
            csv->blank = true;
        } else if (csv->blank) {
            csv->line--;
            status = csv_broken(csv, "the line is empty");
        } else {
            status = csv_row(csv, text, length);
        }
        if (status != COMMAND_FINE)
            break;
        if (csv->line % 4096 == 0)
            progress_update(&progress, (uint64_t)gzoffset(csv->file), file_bytes);
    }
    progress_end(&progress);
    return status;
}

static int
csv_read(struct csv *csv)
{
    struct stat file_status = { 0 };
    bool is_input = strcmp(csv->path, "-") == 0;
    int status;

    if (!is_input && stat(csv->path, &file_status) == 0 && S_ISDIR(file_status.st_mode))
        errno = EISDIR;
    else
        csv->file = is_input ? gzdopen(dup(STDIN_FILENO), "r") : gzopen(csv->path, "r");
    if (csv->file == NULL) {
        fprintf(stderr, "%s: %s\n", csv->path, strerror(errno));
        return COMMAND_WRONG;
    }
    gzbuffer(csv->file, CSV_BUFFER_BYTES);
    csv->buffer = malloc(CSV_BUFFER_BYTES);
    if (csv->buffer == NULL)
        return csv_broken(csv, "%s", replay_add_text(REPLAY_ADD_NO_MEMORY));
    status = csv_header(csv);
    return status == COMMAND_FINE ? csv_rows(csv, (uint64_t)file_status.st_size) : status;
}

int
replay_read_csv(const char *path, struct replay_input *input)
{
    struct csv csv = { .path = path, .input = input };
    int status;

    *input = (struct replay_input){ 0 };
    status = csv_read(&csv);
    if (csv.file != NULL)
        gzclose(csv.file);
    free(csv.buffer);
    free(csv.nulls);
    id_map_free(&csv.live);
    if (status != COMMAND_FINE)
        replay_input_clear(input);
    return status;
}
