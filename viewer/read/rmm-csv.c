/* Reads RMM's CSV, plain or gzip. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/shown.h"
#include "viewer/read/rmm-csv.h"

#define CSV_HEADER       "Thread,Time,Action,Pointer,Size,Stream"
#define CSV_BUFFER_BYTES (256 * 1024)

/* Further columns are counted only. */
#define CSV_COLUMNS_MAX 64

static const char *const csv_names[RMM_COLUMNS] = { "Thread", "Time", "Action", "Pointer", "Size", "Stream" };

struct csv_field {
    const char *text;
    size_t length;
};

static enum rmm_found
csv_complain(struct rmm_csv *csv, enum rmm_found found, const char *format, ...)
{
    int length = snprintf(csv->message, sizeof(csv->message), "%s:%" PRIu64 ": ", csv->path, csv->line);
    va_list arguments;

    if (length < 0 || (size_t)length >= sizeof(csv->message))
        return found;
    va_start(arguments, format);
    vsnprintf(csv->message + length, sizeof(csv->message) - (size_t)length, format, arguments);
    va_end(arguments);
    return found;
}

static enum rmm_found
csv_field_broken(struct rmm_csv *csv, enum rmm_column column, const struct csv_field *field, const char *expected)
{
    char seen[200] = "";
    FILE *out = fmemopen(seen, sizeof(seen), "w");

    if (out != NULL) {
        shown_put(out, field->text, field->length < 40 ? field->length : 40);
        fclose(out);
    }
    return csv_complain(csv, RMM_UNREADABLE, "column %d (%s): expected %s, seen \"%s\"", csv->columns[column] + 1,
                        csv_names[column], expected, seen);
}

/* Append more of the file to the buffer. */
static enum rmm_found
csv_fill(struct rmm_csv *csv)
{
    int count;

    memmove(csv->buffer, csv->buffer + csv->begin, csv->end - csv->begin);
    csv->end -= csv->begin;
    csv->begin = 0;
    if (csv->end == CSV_BUFFER_BYTES) {
        csv->line++;
        return csv_complain(csv, RMM_FAILED, "the line is longer than %d bytes", CSV_BUFFER_BYTES);
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
            return csv_complain(csv, RMM_FAILED, "%s", strerror(errno));
        if (code == Z_BUF_ERROR)
            return csv_complain(csv, RMM_FAILED, "the compressed data ends too early");
        if (code != Z_OK && code != Z_STREAM_END)
            return csv_complain(csv, RMM_FAILED, "the compressed data is damaged: %s", text);
        csv->line--;
    }
    return RMM_ROW;
}

/* The next line without its end. */
static enum rmm_found
csv_line(struct rmm_csv *csv, const char **text, size_t *length)
{
    size_t searched = 0;
    char *newline = NULL;

    for (;;) {
        newline = memchr(csv->buffer + csv->begin + searched, '\n', csv->end - csv->begin - searched);
        if (newline != NULL || csv->at_end)
            break;
        searched = csv->end - csv->begin;
        if (csv_fill(csv) != RMM_ROW)
            return RMM_FAILED;
    }
    if (newline == NULL && csv->begin == csv->end)
        return RMM_END;
    csv->line++;
    *text = csv->buffer + csv->begin;
    *length = newline != NULL ? (size_t)(newline - *text) : csv->end - csv->begin;
    csv->begin += *length + (newline != NULL);
    if (*length > 0 && (*text)[*length - 1] == '\r')
        --*length;
    return RMM_ROW;
}

/* Split a line into fields and return their number. Only the first CSV_COLUMNS_MAX are stored. */
static int
csv_split(const char *text, size_t length, struct csv_field *fields)
{
    const char *end = text + length;
    int count = 0;

    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));

        if (count < CSV_COLUMNS_MAX)
            fields[count] = (struct csv_field){ text, (size_t)((comma != NULL ? comma : end) - text) };
        count++;
        if (comma == NULL)
            return count;
        text = comma + 1;
    }
}

/* Remove blanks and quotes around a field. RMM writes none, but a program that rewrites the file may. */
static void
csv_trim(struct csv_field *field)
{
    while (field->length > 0 && field->text[0] == ' ') {
        field->text++;
        field->length--;
    }
    while (field->length > 0 && field->text[field->length - 1] == ' ')
        field->length--;
    if (field->length >= 2 && field->text[0] == '"' && field->text[field->length - 1] == '"') {
        field->text++;
        field->length -= 2;
    }
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

/* The field of a column; an empty one if the file lacks the column. */
static const struct csv_field *
csv_field(const struct rmm_csv *csv, const struct csv_field *fields, enum rmm_column column)
{
    static const struct csv_field none = { "", 0 };

    return csv->columns[column] >= 0 ? &fields[csv->columns[column]] : &none;
}

static enum rmm_found
csv_row(struct rmm_csv *csv, const struct csv_field *fields, struct rmm_row *row)
{
    const struct csv_field *thread = csv_field(csv, fields, RMM_THREAD);
    const struct csv_field *action = csv_field(csv, fields, RMM_ACTION);
    const struct csv_field *pointer = csv_field(csv, fields, RMM_POINTER);
    const struct csv_field *size = csv_field(csv, fields, RMM_SIZE);
    const struct csv_field *stream = csv_field(csv, fields, RMM_STREAM);
    const struct csv_field *time = csv_field(csv, fields, RMM_TIME);

    row->thread = row->stream = 0;
    row->time = time->text;
    row->time_length = time->length;
    if (csv->columns[RMM_THREAD] >= 0 && !csv_decimal(thread, &row->thread))
        return csv_field_broken(csv, RMM_THREAD, thread, "a number");
    if (!csv_hexadecimal(pointer, &row->pointer))
        return csv_field_broken(csv, RMM_POINTER, pointer, "a hexadecimal address");
    if (!csv_decimal(size, &row->size))
        return csv_field_broken(csv, RMM_SIZE, size, "a number of bytes");
    if (csv->columns[RMM_STREAM] >= 0 && !csv_hexadecimal(stream, &row->stream))
        return csv_field_broken(csv, RMM_STREAM, stream, "a hexadecimal handle");
    if (csv_is(action, "allocate"))
        row->action = RMM_ALLOCATE;
    else if (csv_is(action, "free") || csv_is(action, "deallocate"))
        row->action = RMM_FREE;
    else if (csv_is(action, "allocate failure"))
        row->action = RMM_FAILURE;
    else
        return csv_field_broken(csv, RMM_ACTION, action, "allocate, allocate failure, free or deallocate");
    return RMM_ROW;
}

enum rmm_found
rmm_csv_next(struct rmm_csv *csv, struct rmm_row *row)
{
    struct csv_field fields[CSV_COLUMNS_MAX];
    const char *text;
    size_t length;
    enum rmm_found found;
    int count;

    while ((found = csv_line(csv, &text, &length)) == RMM_ROW && length == 0)
        csv->blank = !csv->lenient;
    if (csv->line % 4096 == 0)
        progress_update(&csv->progress, (uint64_t)gzoffset(csv->file), csv->file_bytes);
    if (found != RMM_ROW)
        return found;
    if (csv->blank) {
        csv->line--;
        return csv_complain(csv, RMM_UNREADABLE, "the line is empty");
    }
    count = csv_split(text, length, fields);
    if (count != csv->column_count)
        return csv_complain(csv, RMM_UNREADABLE, "%d column%s, expected %d (%s)", count, count == 1 ? "" : "s",
                            csv->column_count, csv->lenient ? "those of the header" : CSV_HEADER);
    for (int i = 0; csv->lenient && i < count; i++)
        csv_trim(&fields[i]);
    return csv_row(csv, fields, row);
}

/* Find the columns in the header. */
static bool
csv_columns(struct rmm_csv *csv, const char *text, size_t length)
{
    struct csv_field fields[CSV_COLUMNS_MAX];

    for (int i = 0; i < RMM_COLUMNS; i++)
        csv->columns[i] = csv->lenient ? -1 : i;
    csv->column_count = RMM_COLUMNS;
    if (!csv->lenient)
        return length == strlen(CSV_HEADER) && memcmp(text, CSV_HEADER, length) == 0;
    csv->column_count = csv_split(text, length, fields);
    for (int i = csv->column_count < CSV_COLUMNS_MAX ? csv->column_count : 0; i-- > 0;) {
        csv_trim(&fields[i]);
        for (int column = 0; column < RMM_COLUMNS; column++) {
            if (csv_is(&fields[i], csv_names[column]))
                csv->columns[column] = i;
        }
    }
    return csv->columns[RMM_ACTION] >= 0 && csv->columns[RMM_POINTER] >= 0 && csv->columns[RMM_SIZE] >= 0;
}

static enum rmm_found
csv_header(struct rmm_csv *csv)
{
    const char *text;
    size_t length;
    enum rmm_found found = csv_line(csv, &text, &length);

    if (found == RMM_END) {
        csv->line = 1;
        return csv_complain(csv, RMM_FAILED, "the file is empty, expected the header " CSV_HEADER);
    }
    if (found != RMM_ROW)
        return found;
    /* Skip the byte order mark that some programs write. */
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        length -= 3;
    }
    if (csv_columns(csv, text, length))
        return RMM_ROW;
    return csv_complain(csv, RMM_FAILED, "neither a trace nor allocator traffic: expected the header " CSV_HEADER);
}

int
rmm_csv_open(struct rmm_csv *csv, const char *path, bool lenient, const char *what)
{
    struct stat file_status = { 0 };
    bool is_input = strcmp(path, "-") == 0;

    *csv = (struct rmm_csv){ .path = path, .lenient = lenient };
    if (!is_input && stat(path, &file_status) == 0 && S_ISDIR(file_status.st_mode))
        errno = EISDIR;
    else
        csv->file = is_input ? gzdopen(dup(STDIN_FILENO), "r") : gzopen(path, "r");
    if (csv->file == NULL) {
        message("%s: %s", path, strerror(errno));
        return COMMAND_WRONG;
    }
    progress_begin(&csv->progress, what);
    csv->file_bytes = (uint64_t)file_status.st_size;
    gzbuffer(csv->file, CSV_BUFFER_BYTES);
    csv->buffer = malloc(CSV_BUFFER_BYTES);
    if (csv->buffer == NULL)
        csv_complain(csv, RMM_FAILED, "no memory to read it");
    else if (csv_header(csv) == RMM_ROW)
        return COMMAND_FINE;
    message("%s", csv->message);
    return COMMAND_WRONG;
}

void
rmm_csv_close(struct rmm_csv *csv)
{
    progress_end(&csv->progress);
    if (csv->file != NULL)
        gzclose(csv->file);
    free(csv->buffer);
}

/* Two digits and what must follow them: '\0' is the end or the fraction. */
static bool
csv_digits(const char *text, size_t length, size_t at, int64_t *out)
{
    if (at + 2 > length || text[at] < '0' || text[at] > '9' || text[at + 1] < '0' || text[at + 1] > '9')
        return false;
    *out = (text[at] - '0') * 10 + (text[at + 1] - '0');
    return true;
}

/* HH:MM:SS, and after ':' or '.' up to nine digits of a second. */
static bool
csv_time_of_day(const char *text, size_t length, int64_t *ns)
{
    int64_t hours, minutes, seconds;
    int64_t unit = 100000000;

    if (!csv_digits(text, length, 0, &hours) || !csv_digits(text, length, 3, &minutes) ||
        !csv_digits(text, length, 6, &seconds) || text[2] != ':' || text[5] != ':')
        return false;
    if (hours > 23 || minutes > 59 || seconds > 60 || length == 9 || length > 18)
        return false;
    *ns = ((hours * 60 + minutes) * 60 + seconds) * 1000000000;
    if (length > 8 && text[8] != ':' && text[8] != '.')
        return false;
    for (size_t i = 9; i < length; i++, unit /= 10) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *ns += (text[i] - '0') * unit;
    }
    return true;
}

#define CSV_DAY_NS INT64_C(86400000000000)

bool
rmm_clock_read(struct rmm_clock *clock, const struct rmm_row *row, int64_t *since_start_ns)
{
    int64_t ns = 0;

    if (!csv_time_of_day(row->time, row->time_length, &ns))
        return false;
    if (clock->start_ns < 0)
        clock->start_ns = clock->before_ns = ns;
    if (ns < clock->before_ns - CSV_DAY_NS / 2)
        clock->day_ns += CSV_DAY_NS;
    clock->before_ns = ns;
    *since_start_ns = clock->day_ns + ns - clock->start_ns;
    return true;
}
