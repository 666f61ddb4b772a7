/* Makes random stack text for tests. */
#include "random-stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "contract.h"
#include "src/resource/kind.h"

#define LAYERS_MOST 5
#define DEPTH_MOST  2

static void add(struct random_stack *stack, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
add(struct random_stack *stack, const char *format, ...)
{
    size_t length = strlen(stack->text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(stack->text + length, sizeof(stack->text) - length, format, arguments);
    va_end(arguments);
}

/* A number from 0 to `count` - 1. */
static unsigned
choose(struct random_stack *stack, unsigned count)
{
    return (unsigned)(contract_random(&stack->state) >> 20) % count;
}

static void add_layers(struct random_stack *stack, unsigned count, unsigned depth);

static void
add_statistics(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    add(stack, choose(stack, 3) == 0 ? "statistics(tags=true)" : "statistics");
}

static void
add_limit(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    stack->may_fail = true;
    switch (choose(stack, 4)) {
    case 0:
        add(stack, "limit(%uKiB)", 16u << choose(stack, 10));
        break;
    case 1:
        add(stack, "limit(%uKiB, alignment=1)", 16u << choose(stack, 10));
        break;
    case 2:
        add(stack, "limit(count=%u)", 1 + choose(stack, 200));
        break;
    default:
        add(stack, "limit(1TiB, alignment=%u)", 1u << choose(stack, 13));
        break;
    }
}

static void
add_aligned(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    switch (choose(stack, 3)) {
    case 0:
        add(stack, "aligned");
        break;
    case 1:
        add(stack, "aligned(%u)", 1u << choose(stack, 14));
        break;
    default:
        add(stack, "aligned(%u, above=%u)", 1u << choose(stack, 14), 1 + choose(stack, 5000));
        break;
    }
}

static void
add_retry(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    if (choose(stack, 2) == 0)
        add(stack, "retry");
    else
        add(stack, "retry(%u, any=true)", 1 + choose(stack, 3));
}

static void
add_fault(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    stack->may_fail = true;
    switch (choose(stack, 4)) {
    case 0:
        add(stack, "fault(every=%u)", 2 + choose(stack, 30));
        break;
    case 1:
        add(stack, "fault(probability=%u%%, seed=%u, status=limit)", 1 + choose(stack, 30), choose(stack, 1000));
        break;
    case 2:
        add(stack, "fault(above=%uKiB)", 1 + choose(stack, 60));
        break;
    default:
        add(stack, "fault(nth=%u, after_bytes=%uKiB)", 1 + choose(stack, 100), 1 + choose(stack, 500));
        break;
    }
}

static void
add_guard(struct random_stack *stack, unsigned depth)
{
    if (!stack->host_memory) {
        add_statistics(stack, depth);
        return;
    }
    add(stack, "guard(canary=%u, hold=%uKiB)", 16u << choose(stack, 5), choose(stack, 3) * 40);
}

static void
add_pool(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    switch (choose(stack, 5)) {
    case 0:
        add(stack, "pool(initial=%uKiB, cache=0)", 64u << choose(stack, 6));
        break;
    case 1:
        stack->may_fail = true;
        add(stack, "pool(maximum=%uMiB)", 2 * (1 + choose(stack, 4)));
        break;
    case 2:
        add(stack, "pool(release_threshold=%uMiB, growth=%uMiB)", 1 + choose(stack, 4), 2u << choose(stack, 3));
        break;
    case 3:
        add(stack, "pool(alignment=%u, cache=%uKiB)", 256u << choose(stack, 4), 1u << choose(stack, 12));
        break;
    default:
        add(stack, "pool");
        break;
    }
}

/* At most one arena: of nested arenas, each asks all arenas of the other before it refuses a request. */
static void
add_arena(struct random_stack *stack, unsigned depth)
{
    if (stack->arena) {
        add_pool(stack, depth);
        return;
    }
    stack->arena = true;
    switch (choose(stack, 3)) {
    case 0:
        add(stack, "arena");
        break;
    case 1:
        stack->may_fail = true;
        add(stack, "arena(size=%uMiB)", 2 * (1 + choose(stack, 8)));
        break;
    default:
        stack->may_fail = true;
        add(stack, "arena(size=%uKiB)", 64 << choose(stack, 8));
        break;
    }
}

static void
add_track(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    add(stack, choose(stack, 3) == 0 ? "track(callstack=4)" : "track");
}

/* A log without a path, which records into the trace of the log above. */
static void
add_log(struct random_stack *stack, unsigned depth)
{
    if (!stack->records)
        add_statistics(stack, depth);
    else
        add(stack, choose(stack, 3) == 0 ? "log(callstack=3)" : "log");
}

static void
add_monotonic(struct random_stack *stack, unsigned depth)
{
    (void)depth;
    add(stack, "monotonic(%uKiB)", 16u << choose(stack, 8));
}

static void
add_bin(struct random_stack *stack, unsigned exponent)
{
    unsigned bytes = 1u << exponent;

    add(stack, "%u={", bytes);
    switch (choose(stack, 6)) {
    case 0:
        add(stack, "fixed(%u)", bytes);
        break;
    case 3:
        add_log(stack, 0);
        add(stack, " | fixed(%u)", bytes);
        break;
    case 4:
        add_arena(stack, 0);
        break;
    case 1:
        add(stack, "statistics | fixed(%u, preallocate=%u)", bytes + choose(stack, 100), choose(stack, 5));
        break;
    case 2:
        add(stack, "pool");
        break;
    default:
        add(stack, "statistics");
        break;
    }
    add(stack, "}");
}

static void
add_binning(struct random_stack *stack, unsigned depth)
{
    unsigned exponent = 4 + choose(stack, 6);

    (void)depth;
    add(stack, "binning(");
    if (choose(stack, 3) == 0) {
        add(stack, "%u..%u)", 1u << exponent, 1u << (exponent + choose(stack, 5)));
        return;
    }
    add_bin(stack, exponent);
    for (unsigned more = choose(stack, 3); more > 0; more--) {
        exponent += 1 + choose(stack, 3);
        add(stack, ", ");
        add_bin(stack, exponent);
    }
    add(stack, ")");
}

static void
add_fallback(struct random_stack *stack, unsigned depth)
{
    bool of_its_own = choose(stack, 2) == 0;

    if (depth >= DEPTH_MOST) {
        add_retry(stack, depth);
        return;
    }
    add(stack, "fallback({");
    add_layers(stack, 1 + choose(stack, 2), depth + 1);
    add(stack, of_its_own ? " | host})" : "})");
}

/* Add a value that the argument's row accepts. False if the row does not say which. */
static bool
add_value(struct random_stack *stack, const struct tidei_argument *argument)
{
    uint64_t most = argument->most != 0 && argument->most < 4096 ? argument->most : 4096;
    size_t count = 0;

    switch (argument->type) {
    case TIDEI_ARGUMENT_FLAG:
        add(stack, "%s=%s", argument->key, choose(stack, 2) == 0 ? "true" : "false");
        return true;
    case TIDEI_ARGUMENT_CHOICE:
        while (argument->choices[count] != NULL)
            count++;
        add(stack, "%s=%s", argument->key, argument->choices[choose(stack, (unsigned)count)]);
        return true;
    case TIDEI_ARGUMENT_SIZE:
    case TIDEI_ARGUMENT_COUNT:
        if (argument->least > most || argument->power_of_two)
            return false;
        add(stack, "%s=%u", argument->key,
            (unsigned)argument->least + choose(stack, (unsigned)(most - argument->least) + 1));
        return true;
    default:
        return false;
    }
}

/* Add a kind that has no function of its own here, with one random argument or none. It may refuse requests. */
static void
add_other(struct random_stack *stack, const struct tidei_kind *kind)
{
    size_t begin = strlen(stack->text) + strlen(kind->ops.name);

    stack->may_fail = true;
    add(stack, "%s(", kind->ops.name);
    if (kind->argument_count == 0 || choose(stack, 2) == 0 ||
        !add_value(stack, &kind->arguments[choose(stack, (unsigned)kind->argument_count)]))
        stack->text[begin] = '\0';
    else
        add(stack, ")");
}

static const struct {
    const char *name;
    void (*add)(struct random_stack *stack, unsigned depth);
} random_kinds[] = {
    { "aligned", add_aligned },   { "arena", add_arena },           { "binning", add_binning },
    { "fallback", add_fallback }, { "fault", add_fault },           { "guard", add_guard },
    { "limit", add_limit },       { "limit", add_limit },           { "log", add_log },
    { "log", add_log },           { "monotonic", add_monotonic },   { "pool", add_pool },
    { "retry", add_retry },       { "statistics", add_statistics }, { "track", add_track },
};

#define RANDOM_KINDS (sizeof(random_kinds) / sizeof(random_kinds[0]))

/* The `index`th adaptor without a function of its own here, so that none is forgotten; NULL past the last. */
static const struct tidei_kind *
other_kind(size_t index)
{
    for (const struct tidei_kind *const *kind = tidei_kinds; *kind != NULL; kind++) {
        const char *name = (*kind)->ops.name;
        size_t found = 0;

        while (found < RANDOM_KINDS && strcmp(random_kinds[found].name, name) != 0)
            found++;
        /* `fixed` is used in bins, and `prefetch` needs a GPU. */
        if (found == RANDOM_KINDS && !(*kind)->is_base && strcmp(name, "fixed") != 0 && strcmp(name, "prefetch") != 0 &&
            index-- == 0)
            return *kind;
    }
    return NULL;
}

/* The alignment matters only on the main path of the stack. */
static void
add_layers(struct random_stack *stack, unsigned count, unsigned depth)
{
    unsigned others = 0;

    while (other_kind(others) != NULL)
        others++;
    for (unsigned i = 0; i < count; i++) {
        unsigned chosen = choose(stack, (unsigned)RANDOM_KINDS + others);

        if (i > 0)
            add(stack, " | ");
        if (chosen < RANDOM_KINDS)
            random_kinds[chosen].add(stack, depth);
        else
            add_other(stack, other_kind(chosen - RANDOM_KINDS));
        if (choose(stack, 8) == 0)
            add(stack, " as name-%u", stack->names++);
    }
}

/* The log with the path: only layers that pass every request on unchanged stand above it. */
static void
add_first_log(struct random_stack *stack, const char *trace)
{
    add(stack, "log(%s", trace);
    if (choose(stack, 2) == 0)
        add(stack, ", ring=%uKiB", 4u << choose(stack, 6));
    if (choose(stack, 4) == 0)
        add(stack, ", backlog=1MiB");
    if (choose(stack, 4) == 0)
        add(stack, ", clock=monotonic");
    if (choose(stack, 4) == 0)
        add(stack, ", callstack=%u", 1 + choose(stack, 4));
    if (choose(stack, 6) == 0)
        add(stack, ", samples=%s", choose(stack, 2) == 0 ? "every" : "off");
    stack->drops = choose(stack, 6) == 0;
    add(stack, stack->drops ? ", overflow=drop) | " : ") | ");
}

void
random_stack_make(struct random_stack *stack, uint64_t seed, const char *trace)
{
    memset(stack, 0, sizeof(*stack));
    stack->state = seed;
    for (int i = 0; i < 20; i++)
        contract_random(&stack->state); /* seeds that differ in one bit begin alike */
    stack->host_memory = choose(stack, 2) == 0;
    stack->any_alignment = choose(stack, 4) == 0;
    stack->records = choose(stack, 3) == 0;
    if (stack->records && choose(stack, 2) == 0) {
        add_first_log(stack, trace);
        add(stack, "statistics | ");
    } else {
        add(stack, "statistics | ");
        if (stack->records)
            add_first_log(stack, trace);
    }
    add(stack, stack->any_alignment ? "aligned | " : "");
    add_layers(stack, choose(stack, LAYERS_MOST), 0);
    add(stack, strcmp(stack->text + strlen(stack->text) - 2, "| ") == 0 ? "" : " | ");
    if (stack->host_memory)
        add(stack, "host");
    else
        add(stack, choose(stack, 2) == 0 ? "sim" : "sim(granularity=512)");
}
