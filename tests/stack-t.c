/*
 * Tests stack text over kinds of layers defined by the test, so that its messages do not change with the library's:
 * parsing, printing, and the message for each error.
 */
#include <tidemark/stack.h>

#include "contract.h"
#include "find.h"
#include "src/stack/stack.h"
#include "tap.h"

static int live_count;     /* layers that have not been destroyed */
static char completed[64]; /* the first letters of the completed layers, in their order */

enum { BINS_MOST = 8 };

struct layer {
    struct tide_resource base;
    const struct tidei_kind *kind;
    struct tidei_value values[TIDEI_MAX_ARGUMENTS];
    char word[64]; /* the value of the only WORD argument of a kind */
    struct tidei_bin bins[BINS_MOST];
    size_t bin_count;
};

static enum tide_status
layer_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct layer *layer = (struct layer *)self;

    if (layer->base.upstream != NULL)
        return tide_pass_query(self, what, out);
    if (what != TIDE_QUERY_CAPACITY || !layer->values[0].given)
        return tide_base_query(self, what, out);
    *out = layer->values[0].number;
    return TIDE_OK;
}

static void
layer_describe_value(const struct layer *layer, size_t index, struct tide_text *text)
{
    const struct tidei_argument *argument = &layer->kind->arguments[index];

    tide_text_format(text, "%s=", argument->key);
    if (argument->type == TIDEI_ARGUMENT_WORD)
        tide_text_word(text, layer->word);
    else if (argument->type == TIDEI_ARGUMENT_CHOICE)
        tide_text_format(text, "%s", argument->choices[layer->values[index].number]);
    else if (argument->type == TIDEI_ARGUMENT_FLAG)
        tide_text_format(text, "%s", layer->values[index].number != 0 ? "true" : "false");
    else
        tide_text_size(text, layer->values[index].number);
}

static void
layer_describe(struct tide_resource *self, struct tide_text *text)
{
    struct layer *layer = (struct layer *)self;
    const char *separator = "";

    for (size_t i = 0; i < layer->kind->argument_count; i++) {
        if (!layer->values[i].given)
            continue;
        tide_text_format(text, "%s", separator);
        layer_describe_value(layer, i, text);
        separator = ", ";
    }
    for (size_t i = 0; i < layer->bin_count; i++) {
        tide_text_format(text, "%s", separator);
        tide_text_size(text, layer->bins[i].smallest_bytes);
        tide_text_format(text, layer->bins[i].resource != NULL ? "={" : "..");
        if (layer->bins[i].resource != NULL)
            tidei_describe_until(layer->bins[i].resource, self->upstream, text);
        else
            tide_text_size(text, layer->bins[i].limit_bytes);
        tide_text_format(text, "%s", layer->bins[i].resource != NULL ? "}" : "");
        separator = ", ";
    }
}

static enum tide_status
layer_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out)
{
    return self->upstream != NULL ? tide_pass_upstream_at(self, index, out) : tide_base_upstream_at(self, index, out);
}

static void
layer_destroy(struct tide_resource *self)
{
    struct layer *layer = (struct layer *)self;

    for (size_t i = 0; i < layer->bin_count; i++)
        tide_resource_release(layer->bins[i].resource);
    tide_resource_fini(self);
    free(layer);
    live_count--;
}

static enum tide_status
layer_create(const struct tidei_kind *kind, const struct tide_resource_ops *ops,
             const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct layer *layer;

    /* a base whose second argument contradicts the first */
    if (kind->is_base && arguments->values[0].given && arguments->values[1].number > arguments->values[0].number) {
        *arguments->error_column = arguments->values[1].column;
        return tide_error_set(TIDE_EINVAL, "ground: keep exceeds capacity");
    }
    layer = calloc(1, sizeof(*layer));
    if (layer == NULL || tide_resource_init(&layer->base, ops, upstream) != TIDE_OK)
        abort();
    layer->kind = kind;
    memcpy(layer->values, arguments->values, sizeof(layer->values));
    for (size_t i = 0; i < kind->argument_count; i++) {
        if (kind->arguments[i].type == TIDEI_ARGUMENT_BIN)
            layer->values[i].given = false; /* printed from the bins */
        if (layer->values[i].given && layer->values[i].word != NULL)
            snprintf(layer->word, sizeof(layer->word), "%s", layer->values[i].word);
    }
    for (size_t i = 0; i < arguments->bin_count && i < BINS_MOST; i++) {
        layer->bins[i] = arguments->bins[i];
        tide_resource_retain(layer->bins[i].resource);
        layer->bin_count++;
    }
    live_count++;
    *out = &layer->base;
    return TIDE_OK;
}

static const struct tidei_argument ground_arguments[] = {
    { .key = "capacity", .type = TIDEI_ARGUMENT_SIZE, .expected = "a size such as 8GiB" },
    { .key = "keep",
      .type = TIDEI_ARGUMENT_SIZE,
      .share = true,
      .all = true,
      .least = 2,
      .expected = "a size, a share or all" },
};

static const struct tidei_argument bound_arguments[] = {
    { .key = "limit",
      .type = TIDEI_ARGUMENT_SIZE,
      .positional = true,
      .required = true,
      .share = true,
      .expected = "a size such as 4GiB" },
    { .key = "alignment", .type = TIDEI_ARGUMENT_SIZE, .power_of_two = true, .expected = "a power of two" },
};

static const char *const tape_clocks[] = { "auto", "tsc", "monotonic", NULL };

static const struct tidei_argument tape_arguments[] = {
    { .key = "path", .type = TIDEI_ARGUMENT_WORD, .positional = true, .expected = "a path" },
    { .key = "overwrite", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
    { .key = "clock", .type = TIDEI_ARGUMENT_CHOICE, .choices = tape_clocks, .expected = "a clock" },
    { .key = "depth", .type = TIDEI_ARGUMENT_COUNT, .least = 2, .most = 9, .expected = "a whole number from 2 to 9" },
};

static const struct tidei_argument split_arguments[] = {
    { .key = "bin", .type = TIDEI_ARGUMENT_BIN, .expected = "a bin such as 1KiB={fixed}" },
};

#define TEST_OPS(word)                                                                                                 \
    {                                                                                                                  \
        .version = TIDE_RESOURCE_OPS_VERSION, .name = word, .allocate = tide_pass_allocate,                            \
        .deallocate = tide_pass_deallocate, .order = tide_pass_order, .trim = tide_pass_trim, .query = layer_query,    \
        .describe = layer_describe, .upstream_at = layer_upstream_at, .destroy = layer_destroy                         \
    }

/* Note that the layer was completed. */
static void
layer_complete(struct tide_resource *resource)
{
    size_t length = strlen(completed);

    if (length + 1 < sizeof(completed)) {
        completed[length] = tide_resource_name(resource)[0];
        completed[length + 1] = '\0';
    }
}

#define TEST_KIND(word, table, count, base, given_above)                                                               \
    static const struct tidei_kind word##_kind;                                                                        \
    static const struct tide_resource_ops word##_ops = TEST_OPS(#word);                                                \
    static enum tide_status word##_create(const struct tidei_arguments *arguments, struct tide_resource *upstream,     \
                                          struct tide_resource **out)                                                  \
    {                                                                                                                  \
        return layer_create(&word##_kind, &word##_ops, arguments, upstream, out);                                      \
    }                                                                                                                  \
    static const struct tidei_kind word##_kind = { .ops.name = #word,                                                  \
                                                   .is_base = base,                                                    \
                                                   .arguments = table,                                                 \
                                                   .argument_count = count,                                            \
                                                   .inherits = given_above,                                            \
                                                   .create_text = word##_create,                                       \
                                                   .complete = layer_complete };

TEST_KIND(bound, bound_arguments, 2, false, NULL)
TEST_KIND(ground, ground_arguments, 2, true, NULL)
TEST_KIND(plain, NULL, 0, false, NULL)
TEST_KIND(split, split_arguments, 1, false, NULL)
TEST_KIND(tape, tape_arguments, 4, false, "path")

static enum tide_status
faulty_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    (void)arguments;
    (void)upstream;
    *out = NULL;
    return tide_error_set(TIDE_EBUSY, "faulty: it never works");
}

static const struct tidei_kind faulty_kind = { .ops.name = "faulty", .create_text = faulty_create };
static const struct tidei_kind *const kinds[] = { &bound_kind, &faulty_kind, &ground_kind, &plain_kind,
                                                  &split_kind, &tape_kind,   NULL };

/* Replaces adaptors/kinds.c. */
enum tide_status
tide_stack_parse(const char *text, struct tide_resource **out)
{
    return tidei_stack_build(kinds, text, NULL, out);
}

enum tide_status
tide_stack_from_environment(const char *default_text, struct tide_resource **out)
{
    return tidei_stack_build_environment(kinds, default_text, out);
}

/* Texts, and the descriptions of the stacks that they make. */
#define NAME "expected a name of letters, digits, '_' and '-' such as gpu after 'as'"

static const struct {
    const char *text;
    const char *printed; /* NULL: as the text */
} good[] = {
    { "plain as one | ground as two", NULL },
    { "plain|bound(4)as _a-1|ground(capacity=4)as B", "plain | bound(limit=4) as _a-1 | ground(capacity=4) as B" },
    { "split(1KiB={plain as inner | plain}) as outer | ground", NULL },
    { "plain as plain | plain as as | ground", NULL },
    { "ground", NULL },
    { " \t\nground\n", "ground" },
    { "plain | plain | ground", NULL },
    { "plain|plain|ground", "plain | plain | ground" },
    { "ground(capacity=4096)", "ground(capacity=4KiB)" },
    { "ground(capacity=4095)", NULL },
    { "ground(capacity=0)", NULL },
    { "ground(capacity=7B)", "ground(capacity=7)" },
    { "ground(capacity=1.5GiB)", "ground(capacity=1536MiB)" },
    { "ground(capacity=0.3KiB)", "ground(capacity=307)" },
    { "ground(capacity=1.000000001GiB)", "ground(capacity=1073741825)" },
    { "ground(capacity=2KB)", "ground(capacity=2000)" },
    { "ground(capacity=16PB)", "ground(capacity=15625000000000KiB)" },
    { "ground(capacity=15EiB)", NULL },
    { "ground(capacity=18446744073709551615)", NULL },
    { "ground ( capacity = \"64MiB\" )", "ground(capacity=64MiB)" },
    { "ground(keep=all)", "ground(keep=18446744073709551615)" },
    { "bound(4GiB) | ground", "bound(limit=4GiB) | ground" },
    { "bound(alignment=256, 4GiB) | ground", "bound(limit=4GiB, alignment=256) | ground" },
    { "bound(25%) | ground(capacity=80GiB)", "bound(limit=20GiB) | ground(capacity=80GiB)" },
    { "bound(12.5%) | plain | ground(capacity=80GiB)", "bound(limit=10GiB) | plain | ground(capacity=80GiB)" },
    { "bound(100%) | ground(capacity=15EiB)", "bound(limit=15EiB) | ground(capacity=15EiB)" },
    { "bound(0%) | ground(capacity=1)", "bound(limit=0) | ground(capacity=1)" },
    { "tape(a.db) | ground", "tape(path=a.db) | ground" },
    { "tape(/a-b/%p.db, overwrite) | ground", "tape(path=/a-b/%p.db, overwrite=true) | ground" },
    { "tape(overwrite, a.db, clock=tsc, depth=7) | ground",
      "tape(path=a.db, overwrite=true, clock=tsc, depth=7) | ground" },
    { "tape(path=\"a b, c|d.db\", overwrite=false) | ground", NULL },
    { "tape(path=\"say \\\"ah\\\" \\\\ \") | ground", NULL },
    { "tape(\"overwrite\") | ground", "tape(path=\"overwrite\") | ground" },
    { "tape(path=\"\") | ground", NULL },
    { "tape(path=\"\xc3\xa4.db\") | ground", "tape(path=\xc3\xa4.db) | ground" },
    { "tape(a.db) | plain | tape | ground", "tape(path=a.db) | plain | tape | ground" },
    { "tape(a.db) | split(1KiB={tape}) | tape(overwrite) | ground",
      "tape(path=a.db) | split(1KiB={tape}) | tape(overwrite=true) | ground" },
    { "split(1KiB={tape(a.db)}) | tape | ground", "split(1KiB={tape(path=a.db)}) | tape | ground" },
    { "split | ground", NULL },
    { "split(256..64KiB) | ground", NULL },
    { "split(1KiB={plain}, 1MiB={plain | bound(limit=1GiB)}, 2MiB..4MiB) | plain | ground", NULL },
    { "split(1KiB={split(512={plain})|plain}) | ground", "split(1KiB={split(512={plain}) | plain}) | ground" },
    { "split(1KiB={bound(50%)}) | ground(capacity=1GiB)", "split(1KiB={bound(limit=512MiB)}) | ground(capacity=1GiB)" },
};

static const struct {
    const char *text;
    const char *message; /* after "stack text, column " */
} bad[] = {
    { "ground as", "10: ground: found the end of the text, " NAME },
    { "plain as | ground", "10: plain: found '|', " NAME },
    { "plain as 4u | ground", "10: plain: found '4u', " NAME },
    { "plain as \"up\" | ground", "10: plain: found 'up', " NAME },
    { "plain as a.b | ground", "10: plain: found 'a.b', " NAME },
    { "bound as up | ground", "1: bound: argument 'limit' is missing, expected a size such as 4GiB" },
    { "plain as a b | ground", "12: plain: found 'b', expected '|' and a layer below it" },
    { "plain as up | ground as up", "25: ground: the name 'up' is the plain's at column 10, expected another one" },
    { "split(1KiB={plain as up}) | plain as up | ground",
      "38: plain: the name 'up' is the plain's at column 22, expected another one" },
    { "", "1: found the end of the text, expected the name of a layer" },
    { "  ", "3: found the end of the text, expected the name of a layer" },
    { "|", "1: found '|', expected the name of a layer" },
    { "plain | | ground", "9: found '|', expected the name of a layer" },
    { "plain |", "8: found the end of the text, expected the name of a layer" },
    { "plain", "6: plain: found the end of the text, expected '|' and a base below it, such as host" },
    { "plain(", "7: plain: found the end of the text, expected no parentheses where there are no arguments" },
    { "ground |", "8: ground: found '|', expected the end of the text after a base" },
    { "bound 1 | ground", "7: bound: found '1', expected '(' and its arguments, or '|' and a layer below it" },
    { "bound{1} | ground", "6: bound: found '{', expected '(' and its arguments, or '|' and a layer below it" },
    { "tape plain | ground", "6: tape: found 'plain', expected '|' and a layer below it" },
    { "plain 1 | ground", "7: plain: found '1', expected '|' and a layer below it" },
    { "ground | plain", "1: ground: a base in the middle, expected it as the last layer" },
    { "ground | ground", "1: ground: a base in the middle, expected it as the last layer" },
    { "ground ground", "8: ground: found 'ground', expected the end of the text after a base" },
    { "ground)", "7: ground: found ')', expected the end of the text after a base" },
    { "ground }", "8: ground: found '}', expected the end of the text after a base" },
    { "bound(1) plain | ground", "10: bound: found 'plain', expected '|' and a layer below it" },
    { "bond(1) | ground", "1: layer 'bond' is unknown, expected bound, faulty, ground, plain, split or tape; did you "
                          "mean bound?" },
    { "BOUND(1) | ground", "1: layer 'BOUND' is unknown, expected bound, faulty, ground, plain, split or tape; did you "
                           "mean bound?" },
    { "bd(1) | ground", "1: layer 'bd' is unknown, expected bound, faulty, ground, plain, split or tape" },
    { "grd", "1: layer 'grd' is unknown, expected bound, faulty, ground, plain, split or tape; did you mean ground?" },
    { "blund(1) | ground", "1: layer 'blund' is unknown, expected bound, faulty, ground, plain, split or tape; did you "
                           "mean bound?" },
    { "bound[1] | ground", "1: layer 'bound[1]' is unknown, expected bound, faulty, ground, plain, split or tape; did "
                           "you mean bound?" },
    { "xyzzy | ground", "1: layer 'xyzzy' is unknown, expected bound, faulty, ground, plain, split or tape" },
    { "\xc3\xa4\xc3\xb6 | ground",
      "1: layer '\xc3\xa4\xc3\xb6' is unknown, expected bound, faulty, ground, plain, split "
      "or tape" },
    { "plain | \xc3\xa4(\xc3\xb6) | ground", "9: layer '\xc3\xa4' is unknown, expected bound, faulty, ground, plain, "
                                             "split or tape" },
    { "a_name_of_a_layer_that_is_much_too_long_for_a_message | ground",
      "1: layer 'a_name_of_a_layer_that_is_much_too_long_...' is unknown, expected bound, faulty, ground, plain, split "
      "or tape" },
    { "\"pl\nain\"", "1: layer 'pl?ain' is unknown, expected bound, faulty, ground, plain, split or tape; did you mean "
                     "plain?" },
    { "plain() | ground", "7: plain: found ')', expected no parentheses where there are no arguments" },
    { "bound() | ground", "7: bound: found ')', expected an argument: limit or alignment" },
    { "bound(1,) | ground", "9: bound: found ')', expected an argument: limit or alignment" },
    { "bound | ground", "1: bound: argument 'limit' is missing, expected a size such as 4GiB" },
    { "bound(alignment=1) | ground", "1: bound: argument 'limit' is missing, expected a size such as 4GiB" },
    { "bound(limt=1) | ground",
      "7: bound: argument 'limt' is unknown, expected limit or alignment; did you mean limit?" },
    { "plain | bound(size=1) | ground", "15: bound: argument 'size' is unknown, expected limit or alignment" },
    { "bound(1, 2) | ground", "10: bound: '2' without a key, expected limit or alignment" },
    { "bound(1, zzz) | ground", "10: bound: argument 'zzz' is unknown, expected limit or alignment" },
    { "bound(1, limit=2) | ground", "10: bound: argument 'limit' is given twice, expected it once" },
    { "bound(limit=1, limit=2) | ground", "16: bound: argument 'limit' is given twice, expected it once" },
    { "bound(limit) | ground", "7: bound: argument 'limit' has no value, expected '=' and a size such as 4GiB" },
    { "bound(limit=) | ground", "13: bound: argument 'limit': found ')', expected a size such as 4GiB" },
    { "bound(limit={plain}) | ground", "13: bound: argument 'limit': found '{', expected a size such as 4GiB" },
    { "bound(limit=1 2) | ground", "15: bound: found '2', expected ',' or ')'" },
    { "bound(1 | ground", "9: bound: found '|', expected ',' or ')'" },
    { "bound(1", "8: bound: found the end of the text, expected ',' or ')'" },
    { "bound(", "7: bound: found the end of the text, expected an argument: limit or alignment" },
    { "bound(\"1) | ground", "7: bound: found a quote that is not closed, expected an argument: limit or alignment" },
    { "bound(limit=\"1",
      "13: bound: argument 'limit': found a quote that is not closed, expected a size such as 4GiB" },
    { "\"plain", "1: found a quote that is not closed, expected the name of a layer" },
    { "bound(4GX) | ground", "7: bound: argument 'limit': unit 'GX' is unknown, expected B, KiB, MiB, GiB, TiB, PiB or "
                             "EiB, or KB, MB, GB, TB, PB or EB of 1000" },
    { "bound(4gib) | ground",
      "7: bound: argument 'limit': unit 'gib' is unknown, expected B, KiB, MiB, GiB, TiB, PiB or "
      "EiB, or KB, MB, GB, TB, PB or EB of 1000; did you mean GiB?" },
    { "bound(4m) | ground", "7: bound: argument 'limit': unit 'm' is unknown, expected B, KiB, MiB, GiB, TiB, PiB or "
                            "EiB, or KB, MB, GB, TB, PB or EB of 1000; did you mean MiB?" },
    { "bound(4Kb) | ground", "7: bound: argument 'limit': unit 'Kb' is unknown, expected B, KiB, MiB, GiB, TiB, PiB or "
                             "EiB, or KB, MB, GB, TB, PB or EB of 1000; did you mean KB?" },
    { "bound(1e9) | ground", "7: bound: argument 'limit': '1e9' is no plain number, expected a size such as 4GiB" },
    { "bound(0x10) | ground", "7: bound: argument 'limit': '0x10' is no plain number, expected a size such as 4GiB" },
    { "tape(a b.db) | ground", "8: tape: found 'b.db', expected ',' or ')', and double quotes around what has spaces" },
    { "tape(a overwrite) | ground", "8: tape: found 'overwrite', expected ',' or ')'" },
    { "bound(4 GiB) | ground", "9: bound: found 'GiB', expected ',' or ')', and no space before a unit" },
    { "bound(-1) | ground", "7: bound: argument 'limit': '-1' is negative, expected a size such as 4GiB" },
    { "bound(lots) | ground", "7: bound: argument 'limit': 'lots' begins with no digit, expected a size such as 4GiB" },
    { "bound(\"\") | ground", "7: bound: argument 'limit': '' begins with no digit, expected a size such as 4GiB" },
    { "bound(.5GiB) | ground",
      "7: bound: argument 'limit': '.5GiB' begins with no digit, expected a size such as 4GiB" },
    { "bound(5.GiB) | ground", "7: bound: argument 'limit': '5.GiB' has no digit after its point, expected a size such "
                               "as 4GiB" },
    { "bound(1.5) | ground", "7: bound: argument 'limit': '1.5' is no whole number of bytes, expected a size such as "
                             "4GiB" },
    { "bound(1.0000000001GiB) | ground", "7: bound: argument 'limit': '1.0000000001GiB' has more than 9 decimals, "
                                         "expected a size such as 4GiB" },
    { "bound(16EiB) | ground", "7: bound: argument 'limit': '16EiB' is over 2^64 - 1 bytes, expected a size such as "
                               "4GiB" },
    { "bound(18446744073709551616) | ground", "7: bound: argument 'limit': '18446744073709551616' is over 2^64 - 1, "
                                              "expected a size such as 4GiB" },
    { "plain | ground(capacity=4, keep=5)", "33: ground: keep exceeds capacity" },
    { "ground(keep=0%)", "13: ground: argument 'keep': '0%' is too small, expected a size, a share or all" },
    { "ground(keep=101%)", "13: ground: argument 'keep': '101%' is over 100%, expected a size, a share or all" },
    { "bound(all) | ground", "7: bound: argument 'limit': 'all' begins with no digit, expected a size such as 4GiB" },
    { "bound(101%) | ground", "7: bound: argument 'limit': '101%' is over 100%, expected a size such as 4GiB" },
    { "bound(100.1%) | ground", "7: bound: argument 'limit': '100.1%' is over 100%, expected a size such as 4GiB" },
    { "bound(%) | ground", "7: bound: argument 'limit': '%' begins with no digit, expected a size such as 4GiB" },
    { "bound(5x%) | ground",
      "7: bound: argument 'limit': '5x%' is no number of percent, expected a size such as 4GiB" },
    { "bound(1, alignment=5%) | ground", "20: bound: argument 'alignment': '5%' is a share, which is not taken here, "
                                         "expected a power of two" },
    { "bound(25%) | ground", "7: bound: argument 'limit': no layer below knows its capacity, expected a size such as "
                             "4GiB" },
    { "tape(\xc3\xa4, dept=1) | ground",
      "9: tape: argument 'dept' is unknown, expected path, overwrite, clock or depth; "
      "did you mean depth?" },
    { "tape(a, overwrite=yes) | ground", "19: tape: argument 'overwrite': 'yes' is unknown, expected false or true" },
    { "tape(a, clock=TSC) | ground",
      "15: tape: argument 'clock': 'TSC' is unknown, expected auto, tsc or monotonic; did you mean tsc?" },
    { "tape(a, clock=sun) | ground", "15: tape: argument 'clock': 'sun' is unknown, expected auto, tsc or monotonic" },
    { "tape(a, depth=1.5) | ground",
      "15: tape: argument 'depth': '1.5' is no whole number, expected a whole number from 2 to 9" },
    { "tape(a, depth=1KiB) | ground",
      "15: tape: argument 'depth': '1KiB' is no whole number, expected a whole number from 2 to 9" },
    { "tape(a, overwrite, overwrite) | ground", "20: tape: argument 'overwrite' is given twice, expected it once" },
    { "tape | ground", "1: tape: argument 'path' is missing, expected it here or in a tape above" },
    { "tape | tape(a) | ground", "1: tape: argument 'path' is missing, expected it here or in a tape above" },
    { "split(1={tape(a)}, 2={tape}) | ground", "23: tape: argument 'path' is missing, expected it here or in a tape "
                                               "above" },
    { "split(1={ground}) | ground", "10: ground: a base in braces, expected layers over what is below the bins" },
    { "split(1={}) | ground", "10: found '}', expected the name of a layer" },
    { "split(1={plain) | ground", "15: plain: found ')', expected '|' or '}'" },
    { "split(1={plain}", "16: split: found the end of the text, expected ',' or ')'" },
    { "split(1={plain", "15: plain: found the end of the text, expected '|' or '}'" },
    { "split(1=plain) | ground", "9: split: found 'plain', expected '{' and the bin's layers" },
    { "split(1x={plain}) | ground",
      "7: split: argument 'bin': unit 'x' is unknown, expected B, KiB, MiB, GiB, TiB, PiB "
      "or EiB, or KB, MB, GB, TB, PB or EB of 1000" },
    { "split(big={plain}) | ground", "7: split: argument 'bin': 'big' begins with no digit, expected a bin such as "
                                     "1KiB={fixed}" },
    { "split(1..) | ground",
      "10: split: argument 'bin': '' begins with no digit, expected a bin such as 1KiB={fixed}" },
    { "split(1KiB) | ground", "7: split: found '1KiB', expected a bin such as 1KiB={fixed}" },
    { "split(0={plain}) | ground", "7: split: a bin of up to 0 bytes, expected a bin such as 1KiB={fixed}" },
    { "split(3..8) | ground", "7: split: a range of 3 B to 8 B, expected powers of two that rise" },
    { "split(2..7) | ground", "7: split: a range of 2 B to 7 B, expected powers of two that rise" },
    { "split(8..4) | ground", "7: split: a range of 8 B to 4 B, expected powers of two that rise" },
    { "bound(1, alignment=3) | ground",
      "20: bound: argument 'alignment': '3' is no power of two, expected a power of two" },
    { "bound(1, alignment=0) | ground",
      "20: bound: argument 'alignment': '0' is no power of two, expected a power of two" },
    { "tape(a, depth=1) | ground",
      "15: tape: argument 'depth': '1' is too small, expected a whole number from 2 to 9" },
    { "tape(a, depth=10) | ground",
      "15: tape: argument 'depth': '10' is too large, expected a whole number from 2 to 9" },
    { "split({plain}) | ground", "7: split: found '{', expected a bin such as 1KiB={fixed}" },
    { "split(1={split(1={split(1={split(1={split(1={split(1={split(1={split(1={split(1={plain",
      "81: split: braces nest "
      "too deep, expected at "
      "most 8" },
    { "plain | faulty | ground", "9: faulty: it never works" },
    { "plain | split(1={plain}, 2={faulty}) | ground", "29: faulty: it never works" },
};

static void
check_good(const char *text, const char *printed)
{
    struct tide_resource *stack;
    struct tide_resource *again = NULL;
    char first[512] = "";
    char second[512] = "";
    size_t needed = 0;

    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        is_string(tide_error_text(), printed, "a right text is parsed");
        return;
    }
    tide_describe(stack, first, sizeof(first), &needed);
    tide_stack_parse(first, &again);
    tide_describe(again, second, sizeof(second), NULL);
    tide_resource_release(stack);
    tide_resource_release(again);
    if (!ok(strcmp(first, printed) == 0 && strcmp(first, second) == 0 && needed == strlen(first) && live_count == 0,
            "'%s' makes the stack that prints as '%s'", strchr(text, '\n') == NULL ? text : "(lines)", printed))
        diag("seen \"%s\", then \"%s\", %d layers left", first, second, live_count);
}

static void
check_bad(const char *text, const char *message)
{
    struct tide_resource *stack = (struct tide_resource *)&live_count;
    enum tide_status status = tide_stack_parse(text, &stack);
    const char *seen = tide_error_text();

    if (strncmp(seen, "stack text, column ", 19) == 0)
        seen += 19;
    if (!ok(status != TIDE_OK && stack == NULL && strcmp(seen, message) == 0 && live_count == 0, "column %s", message))
        diag("text \"%s\", seen \"%s\", %d layers left", text, seen, live_count);
}

static void
check_interface(void)
{
    struct tide_resource *stack = (struct tide_resource *)&live_count;
    char text[8] = "xxxxxxx";
    size_t needed;

    ok(tide_stack_parse(NULL, &stack) == TIDE_EINVAL && stack == NULL &&
           tide_stack_parse("ground", NULL) == TIDE_EINVAL,
       "NULL in place of text and result is refused");
    ok(tide_stack_parse("faulty | ground", &stack) == TIDE_EBUSY, "a constructor's status is returned");
    unsetenv("TIDEMARK_STACK");
    ok(tide_stack_from_environment("plain | ground", &stack) == TIDE_OK && stack->upstream != NULL,
       "without TIDEMARK_STACK the default is made");
    ok(tide_describe(stack, text, sizeof(text), &needed) == TIDE_OK && needed == strlen("plain | ground"),
       "a short buffer gets the length that is needed");
    is_string(text, "plain |", "a short buffer has as much of the text as fits");
    ok(tide_describe(stack, NULL, 0, &needed) == TIDE_OK && needed == strlen("plain | ground"),
       "NULL in place of the buffer gets the length that is needed");
    ok(tide_describe(NULL, text, sizeof(text), &needed) == TIDE_EINVAL && needed == 0 && text[0] == '\0',
       "the description of NULL is refused");
    tide_resource_release(stack);
    setenv("TIDEMARK_STACK", "ground", 1);
    ok(tide_stack_from_environment("plain | ground", &stack) == TIDE_OK && stack->upstream == NULL,
       "TIDEMARK_STACK takes precedence over the default");
    tide_resource_release(stack);
    setenv("TIDEMARK_STACK", "plain", 1);
    ok(tide_stack_from_environment("ground", &stack) == TIDE_ESYNTAX && stack == NULL,
       "a bad TIDEMARK_STACK is refused");
    is_string(
        tide_error_text(),
        "TIDEMARK_STACK: stack text, column 6: plain: found the end of the text, expected '|' and a base below it, "
        "such as host",
        "the error says that the text came from TIDEMARK_STACK");
    setenv("TIDEMARK_STACK", "", 1);
    ok(tide_stack_from_environment("ground", &stack) == TIDE_OK, "an empty TIDEMARK_STACK counts as unset");
    tide_resource_release(stack);
}

static void
check_complete(void)
{
    struct tide_resource *stack;

    completed[0] = '\0';
    tide_stack_parse("split(1KiB={bound(1) | tape(a.db)}, 2..4) | plain | ground", &stack);
    is_string(completed, "gptbs", "each layer is completed once, from the base up");
    tide_resource_release(stack);
    completed[0] = '\0';
    tide_stack_parse("split(1KiB={faulty}) | plain | ground", &stack);
    is_string(completed, "", "no layer is completed if one cannot be built");
}

static void
check_many_layers(void)
{
    static char text[512 * 8];
    struct tide_resource *stack;

    for (int i = 0; i < 255; i++)
        strcat(text, "plain|");
    strcat(text, "ground");
    ok(tide_stack_parse(text, &stack) == TIDE_OK, "a stack of 256 layers is made");
    tide_resource_release(stack);
    memmove(text + 6, text, strlen(text) + 1);
    memcpy(text, "plain|", 6);
    tide_stack_parse(text, &stack);
    is_string(tide_error_text(), "stack text, column 1537: ground: too many layers, expected at most 256",
              "a stack of 257 layers is refused");
    is_i64(live_count, 0, "no layer of the refused stack is left");
}

/* Good and bad texts with bytes changed, removed and doubled: parsing must neither crash nor leak. */
static void
check_mutations(void)
{
    uint64_t seed = contract_seed(99);
    uint64_t silent = 0;
    uint64_t made = 0;

    for (int i = 0; i < 60000; i++) {
        static const char bytes[] = "|(),={}\"\\ .%-0123456789KMGiBabcdefglnoprstu\n\xc3";
        size_t which = contract_random(&seed) % (TIDEI_COUNT_OF(good) + TIDEI_COUNT_OF(bad));
        const char *source = which < TIDEI_COUNT_OF(good) ? good[which].text : bad[which - TIDEI_COUNT_OF(good)].text;
        char *text = calloc(1, strlen(source) + 16); /* on the heap, so that a sanitizer knows its end */
        struct tide_resource *stack;

        strcpy(text, source);
        for (uint64_t changes = 1 + contract_random(&seed) % 4; changes > 0; changes--) {
            size_t length = strlen(text);
            size_t at = length != 0 ? contract_random(&seed) % length : 0;

            switch (contract_random(&seed) % 3) {
            case 0:
                text[at] = bytes[contract_random(&seed) % (sizeof(bytes) - 1)];
                break;
            case 1:
                memmove(text + at, text + at + (length != 0), length - at + (length == 0));
                break;
            default:
                memmove(text + at + 1, text + at, length - at + 1);
            }
        }
        text = realloc(text, strlen(text) + 1);
        if (tide_stack_parse(text, &stack) == TIDE_OK)
            made++;
        else
            silent += stack != NULL || tide_error_text()[0] == '\0' || strchr(tide_error_text(), '\n') != NULL;
        tide_resource_release(stack);
        free(text);
    }
    diag("%" PRIu64 " of 60000 changed texts made a stack", made);
    is_u64(silent, 0, "randomly changed texts make a stack or an error of one line");
    is_i64(live_count, 0, "no layer of the random stacks is left");
}

/* A base resolves its own share, and a layer is found by its name. */
static void
check_find(void)
{
    struct tide_resource *stack = NULL;
    struct layer *ground;
    struct layer *bound;

    tide_stack_parse("split(1KiB={bound(1)}) | plain | bound(2) | ground(keep=12.5%)", &stack);
    ground = (struct layer *)find_layer(stack, "ground");
    ok(ground != NULL && ground->base.upstream == NULL, "the base of a stack is found by its name");
    ok(ground != NULL && ground->values[1].number == 0 && ground->values[1].share * 8 == ground->values[1].share_whole,
       "a base gets an argument in percent as a share");
    bound = (struct layer *)find_layer(stack, "bound");
    ok(bound != NULL && bound->values[0].number == 2,
       "of two layers of one kind the search finds the one above the larger bin");
    ok(find_layer(stack, "split") == stack, "the search finds the top of the stack");
    ok(find_layer(stack, "tape") == NULL && find_layer(NULL, "tape") == NULL && find_layer(stack, NULL) == NULL,
       "the search finds no kind that is not in the stack, and no NULL");
    tide_resource_release(stack);
}

/* A name in the text takes precedence over a kind of that name. */
static void
check_names(void)
{
    struct tide_resource *stack = NULL;
    struct tide_resource *found = NULL;

    tide_stack_parse("split(1KiB={bound(1) as small}) | plain as bound | bound(2) as large | ground", &stack);
    ok(tide_stack_find(stack, "large", &found) == TIDE_OK && ((struct layer *)found)->values[0].number == 2,
       "a layer is found by the name that the text gives it");
    ok(tide_stack_find(stack, "bound", &found) == TIDE_OK && found == stack->upstream,
       "a layer's own name is found before a kind of the same name");
    ok(tide_stack_find(stack, "ground", &found) == TIDE_OK && found->upstream == NULL,
       "a layer without a name is found by its kind");
    ok(tide_stack_find(stack, "lrge", &found) == TIDE_EINVAL && found == NULL, "an unknown name finds no layer");
    is_string(tide_error_text(),
              "stack: no layer is called 'lrge', expected bound, large, split, plain or ground; did you mean "
              "large?",
              "the error for an unknown name lists the names, and suggests one");
    tide_resource_release(stack);
}

int
main(void)
{
    plan((int)TIDEI_COUNT_OF(good) + (int)TIDEI_COUNT_OF(bad) + 11 + 2 + 3 + 2 + 5 + 5);
    check_find();
    check_names();
    for (size_t i = 0; i < TIDEI_COUNT_OF(good); i++)
        check_good(good[i].text, good[i].printed != NULL ? good[i].printed : good[i].text);
    for (size_t i = 0; i < TIDEI_COUNT_OF(bad); i++)
        check_bad(bad[i].text, bad[i].message);
    check_interface();
    check_complete();
    check_many_layers();
    check_mutations();
    return done();
}
