/*
 * Tests mistakes in the stack text of the library's own layers: each message names the error, its position and what was
 * expected. tests/stack-t.c tests the grammar.
 */
#include <fnmatch.h>

#include <tidemark/tidemark.h>

#include "tap.h"

#define UNITS  "expected B, KiB, MiB, GiB, TiB, PiB or EiB, or KB, MB, GB, TB, PB or EB of 1000"
#define LAYERS "expected aligned, arena, binning, * or vmm"
#define BIN    "expected a bin such as 256KiB={fixed(256KiB)}, or powers of two such as 256..64KiB"

static const struct {
    const char *text;
    enum tide_status status;
    const char *message; /* after "stack text, column ", as fnmatch() has it */
} mistakes[] = {
    /* layers */
    { "", TIDE_ESYNTAX, "1: found the end of the text, expected the name of a layer" },
    { "limit(4GiB)", TIDE_ESYNTAX,
      "12: limit: found the end of the text, expected '|' and a base below it, such as host" },
    { "limit(4GiB) host", TIDE_ESYNTAX, "13: limit: found 'host', expected '|' and a layer below it" },
    { "limit 4GiB | host", TIDE_ESYNTAX,
      "7: limit: found '4GiB', expected '(' and its arguments, or '|' and a layer below it" },
    { "fixed 1MiB | host", TIDE_ESYNTAX,
      "7: fixed: found '1MiB', expected '(' and its arguments, or '|' and a layer below it" },
    { "limit(4GiB) | host 1GiB", TIDE_ESYNTAX,
      "20: host: found '1GiB', expected '(' and its arguments, or the end of the text" },
    { "limit(4GiB) || host", TIDE_ESYNTAX, "14: found '|', expected the name of a layer" },
    { "limit(4GiB) | host |", TIDE_ESYNTAX, "20: host: found '|', expected the end of the text after a base" },
    { "host | limit(4GiB)", TIDE_ESYNTAX, "1: host: a base in the middle, expected it as the last layer" },
    { "(limit(4GiB) | host", TIDE_ESYNTAX, "1: found '(', expected the name of a layer" },
    { "Limit(4GiB) | host", TIDE_ESYNTAX, "1: layer 'Limit' is unknown, " LAYERS "; did you mean limit?" },
    { "limt(4GiB) | host", TIDE_ESYNTAX, "1: layer 'limt' is unknown, " LAYERS "; did you mean limit?" },
    { "limit:4GiB | host", TIDE_ESYNTAX, "1: layer 'limit:4GiB' is unknown, " LAYERS "; did you mean limit?" },
    { "stats | host", TIDE_ESYNTAX, "1: layer 'stats' is unknown, " LAYERS "; did you mean statistics?" },
    { "log(t.db) | hots", TIDE_ESYNTAX, "13: layer 'hots' is unknown, " LAYERS "; did you mean host?" },
    { "limit(4GiB) as gpu 0 | host", TIDE_ESYNTAX, "20: limit: found '0', expected '|' and a layer below it" },
    { "limit(4GiB as gpu) | host", TIDE_ESYNTAX, "12: limit: found 'as', expected ',' or ')'" },
    { "limit(4GiB) as gpu | log(t.db) | host as gpu", TIDE_ESYNTAX,
      "42: host: the name 'gpu' is the limit's at column 16, expected another one" },
    { "cache | host", TIDE_ESYNTAX, "1: layer 'cache' is unknown, " LAYERS },
    /* arguments */
    { "limit() | host", TIDE_ESYNTAX,
      "7: limit: found ')', expected an argument: limit, count, soft, alignment, budget or shared" },
    { "limit | host", TIDE_ESYNTAX,
      "1: limit: argument 'limit' is missing, expected a size such as 4GiB, or a share such as 25%, or count=" },
    { "limit(4GiB, sofft=1GiB) | host", TIDE_ESYNTAX,
      "13: limit: argument 'sofft' is unknown, expected limit, count, soft, alignment, budget or shared; did you mean "
      "soft?" },
    { "limit(4GiB, align=1) | host", TIDE_ESYNTAX,
      "13: limit: argument 'align' is unknown, expected limit, count, soft, alignment, budget or shared; did you mean "
      "alignment?" },
    { "limit(4GiB, soft) | host", TIDE_ESYNTAX,
      "13: limit: argument 'soft' has no value, expected '=' and a size such as 3GiB, or a share such as 20%" },
    { "limit(1GiB, limit=1GiB) | host", TIDE_ESYNTAX, "13: limit: argument 'limit' is given twice, expected it once" },
    { "driver(device=0, device=1)", TIDE_ESYNTAX, "18: driver: argument 'device' is given twice, expected it once" },
    { "pool(1GiB) | host", TIDE_ESYNTAX, "6: pool: '1GiB' without a key, expected initial, maximum, *" },
    { "log | host", TIDE_ESYNTAX, "1: log: argument 'path' is missing, expected it here or in a log above" },
    { "log(a b.db) | host", TIDE_ESYNTAX,
      "7: log: found 'b.db', expected ',' or ')', and double quotes around what has spaces" },
    { "log(a.db, overwite) | host", TIDE_ESYNTAX,
      "11: log: argument 'overwite' is unknown, expected path, overwrite, *; did you mean overwrite?" },
    { "log(\"a.db | host", TIDE_ESYNTAX, "5: log: found a quote that is not closed, expected an argument: path, *" },
    { "fallback(host) | host", TIDE_ESYNTAX,
      "10: fallback: argument 'host' is unknown, expected layers in braces such as {limit(4GiB)} or any" },
    { "fallback({host}, {host}) | host", TIDE_ESYNTAX,
      "18: fallback: argument 'first' is given twice, expected it once" },
    /* values */
    { "limit(4 GiB) | host", TIDE_ESYNTAX, "9: limit: found 'GiB', expected ',' or ')', and no space before a unit" },
    { "limit(4G) | host", TIDE_ESYNTAX,
      "7: limit: argument 'limit': unit 'G' is unknown, " UNITS "; did you mean GiB?" },
    { "limit(4gb) | host", TIDE_ESYNTAX,
      "7: limit: argument 'limit': unit 'gb' is unknown, " UNITS "; did you mean GB?" },
    { "limit(4Gbit) | host", TIDE_ESYNTAX, "7: limit: argument 'limit': unit 'Gbit' is unknown, " UNITS },
    { "limit(1e9) | host", TIDE_ESYNTAX, "7: limit: argument 'limit': '1e9' is no plain number, expected a size *" },
    { "limit(-1) | host", TIDE_ESYNTAX, "7: limit: argument 'limit': '-1' is negative, expected a size *" },
    { "limit(16EiB) | host", TIDE_ESYNTAX, "7: limit: argument 'limit': '16EiB' is over 2^64 - 1 bytes, expected *" },
    { "limit(200%) | host", TIDE_ESYNTAX, "7: limit: argument 'limit': '200%' is over 100%, expected a size *" },
    { "limit(25%) | host", TIDE_ESYNTAX,
      "7: limit: argument 'limit': no layer below knows its capacity, expected a size such as 4GiB" },
    { "limit(4GiB, alignment=300) | host", TIDE_ESYNTAX,
      "23: limit: argument 'alignment': '300' is no power of two, expected a power of two such as 256" },
    { "limit(4GiB, budget=\"\") | host", TIDE_ESYNTAX,
      "20: limit: argument 'budget': '' is empty, expected a name such as gpu" },
    { "fault(probability=2) | host", TIDE_ESYNTAX, "19: fault: argument 'probability': '2' is over 1, expected *" },
    { "retry(0) | host", TIDE_ESYNTAX,
      "7: retry: argument 'retries': '0' is too small, expected a number from 1 to *" },
    { "fixed(1MiB, preallocate=8KiB) | host", TIDE_ESYNTAX,
      "25: fixed: argument 'preallocate': '8KiB' is no whole number, expected a number of blocks" },
    { "log(a.db, clock=TSC) | host", TIDE_ESYNTAX,
      "17: log: argument 'clock': 'TSC' is unknown, expected auto, tsc or monotonic; did you mean tsc?" },
    { "log(a.db, overwrite=yes) | host", TIDE_ESYNTAX,
      "21: log: argument 'overwrite': 'yes' is unknown, expected false or true" },
    /* bins */
    { "binning(256KiB=fixed(256KiB)) | host", TIDE_ESYNTAX,
      "16: binning: found 'fixed', expected '{' and the bin's layers" },
    { "binning(256KiB:{fixed(256KiB)}) | host", TIDE_ESYNTAX, "9: binning: found '256KiB:', " BIN },
    { "binning({fixed(256KiB)}) | host", TIDE_ESYNTAX, "9: binning: found '{', " BIN },
    { "binning(1-64) | host", TIDE_ESYNTAX, "9: binning: found '1-64', " BIN },
    { "binning(64..1) | host", TIDE_ESYNTAX, "9: binning: a range of 64 B to 1 B, expected powers of two that rise" },
    { "binning(1KiB={host}) | host", TIDE_ESYNTAX,
      "15: host: a base in braces, expected layers over what is below the bins" },
    { "binning(1KiB={fixed(1KiB)) | host", TIDE_ESYNTAX, "26: fixed: found ')', expected '|' or '}'" },
    /* what only a constructor can tell */
    { "limit(4GiB, soft=5GiB) | host", TIDE_EINVAL, "18: limit: soft limit of 5 GiB over the limit of 4 GiB" },
    { "limit(4GiB, budget=a) | limit(5GiB, budget=a) | host", TIDE_EINVAL,
      "20: limit: budget 'a' was made with limit=5GiB, and is wanted with limit=4GiB here" },
    { "limit(4GiB, budget=a) | limit(count=4, budget=a) | host", TIDE_EINVAL,
      "20: limit: budget 'a' was made without limit, and is wanted with limit=4GiB here" },
    { "limit(1, count=7, budget=a) | limit(1, budget=a) | host", TIDE_EINVAL,
      "26: limit: budget 'a' was made without count, and is wanted with count=7 here" },
    { "limit(9, budget=a) | limit(9, soft=5, budget=a) | host", TIDE_EINVAL,
      "17: limit: budget 'a' was made with soft=5, and is wanted without soft here" },
    { "fixed(8EiB, preallocate=4) | sim", TIDE_EOVERFLOW, "25: fixed: the sizes of 4 blocks of 8 EiB overflow" },
    { "fixed(1MiB, preallocate=4) | limit(1) | sim", TIDE_ELIMIT, "25: limit: 1 MiB request exceeds 1 B limit" },
    { "binning(2KiB={fixed(1KiB)}) | host", TIDE_EINVAL,
      "9: binning: the bin of up to 2 KiB serves no more than 1024 B" },
    { "binning(1KiB={fixed(1KiB)}, 1KiB={fixed(1KiB)}) | host", TIDE_EINVAL, "29: binning: two bins of up to 1 KiB" },
    { "fault | host", TIDE_EINVAL, "1: fault: nothing chosen, expected nth, every, probability, above or after_bytes" },
    { "fault(seed=3) | host", TIDE_EINVAL, "12: fault: a seed without a probability" },
    { "aligned(above=1MiB) | host", TIDE_EINVAL, "15: aligned: no alignment for requests over 1 MiB" },
    { "guard | sim", TIDE_EUNSUPPORTED, "1: guard: the layers below have no memory that can be read" },
};

int
main(void)
{
    size_t count = sizeof(mistakes) / sizeof(mistakes[0]);

    plan((int)count);
    for (size_t i = 0; i < count; i++) {
        struct tide_resource *stack = NULL;
        enum tide_status status = tide_stack_parse(mistakes[i].text, &stack);
        const char *prefix = "stack text, column ", *seen = tide_error_text();

        if (strncmp(seen, prefix, strlen(prefix)) == 0)
            seen += strlen(prefix);
        if (!ok(all_of(status == mistakes[i].status, stack == NULL, fnmatch(mistakes[i].message, seen, 0) == 0),
                "'%s': what is wrong, where, and what was expected", mistakes[i].text))
            diag("%s: %s; expected %s", tide_status_name(status), seen, mistakes[i].message);
        tide_resource_release(stack);
    }
    return done();
}
