/* Tests adaptors/fault.c. (tests/fault-t.c tests failing disks.) */
#include <math.h>
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"
#include "texts.h"
#include "upstream.h"

#define KIB     ((uint64_t)1 << 10)
#define THREADS 4
#define STEPS   5000

/* A fault layer over a new upstream. If `upstream` is not NULL, *upstream borrows the upstream. */
static struct tide_resource *
make(struct tide_fault_options options, struct upstream **upstream)
{
    struct upstream *base = upstream_create();
    struct tide_resource *fault;

    options.struct_size = sizeof(options);
    if (tide_fault_create(&base->base, &options, &fault) != TIDE_OK)
        abort();
    tide_resource_release(&base->base);
    if (upstream != NULL)
        *upstream = base;
    return fault;
}

/* Allocate and free `bytes`. */
static enum tide_status
ask(struct tide_resource *fault, size_t bytes)
{
    void *pointer = &pointer;
    enum tide_status status = tide_allocate(fault, bytes, 1, 0, &pointer);

    if (status == TIDE_OK)
        return tide_deallocate(fault, pointer, bytes, 1, 0);
    return pointer == NULL ? status : TIDE_OK;
}

/* Which of `count` requests of `bytes` fail: "..x" if only the third does. */
static const char *
pattern(struct tide_resource *fault, size_t bytes, size_t count)
{
    static char text[128];

    for (size_t i = 0; i < count; i++)
        text[i] = ask(fault, bytes) == TIDE_OK ? '.' : 'x';
    text[count] = '\0';
    return text;
}

#define CHOICE_TESTS 15

static void
check_choice(void)
{
    struct upstream *upstream;
    struct tide_resource *fault = make((struct tide_fault_options){ .nth = 3 }, &upstream);
    struct tide_fault_figures counts = { TIDE_FIGURES(counts) };

    is_string(pattern(fault, 8, 6), "..x...", "nth=3 fails the third request, with NULL, and no other");
    ok(all_of(upstream->allocate_calls == 5, upstream->live_count == 0), "a planted failure does not reach upstream");
    ok(all_of(tide_fault_read(fault, &counts) == TIDE_OK, counts.counted == 6, counts.planted == 1),
       "the layer counts all requests and the failures that it planted");
    is_string(tide_error_text(), "fault: planted failure of request 3 (8 B): chosen by nth",
              "the error of a planted failure says why");
    ok(tide_fault_restart(fault, 1) == TIDE_OK, "a layer can be restarted");
    is_string(pattern(fault, 8, 3), "x..", "after a restart with another nth another request fails");
    tide_fault_restart(fault, 0);
    is_string(pattern(fault, 8, 3), "...", "after a restart without nth no request fails");
    tide_resource_release(fault);

    fault = make((struct tide_fault_options){ .every = 3, .nth = 4, .status = TIDE_EDRIVER }, NULL);
    is_string(pattern(fault, 0, 7), "..xx.x.",
              "every=3 and nth=4 together fail every third and the fourth request, also of 0 bytes");
    ok(all_of(tide_fault_restart(fault, 1) == TIDE_OK, ask(fault, 1) == TIDE_EDRIVER, tide_error_driver() == 999),
       "a planted failure has the status and driver error in the options");
    tide_resource_release(fault);

    fault = make((struct tide_fault_options){ .above_bytes = 100 }, NULL);
    ok(all_of(ask(fault, 100) == TIDE_OK, ask(fault, 101) == TIDE_ECAPACITY, ask(fault, 0) == TIDE_OK),
       "above=100 fails every request over 100 bytes");
    has_words(tide_error_text(), "chosen by above", "the error names above as the reason");
    tide_resource_release(fault);
    fault = make((struct tide_fault_options){ .above_bytes = 100, .nth = 2 }, NULL);
    ok(all_of(ask(fault, 101) == TIDE_OK, ask(fault, 100) == TIDE_OK, ask(fault, 101) == TIDE_ECAPACITY,
              ask(fault, 101) == TIDE_OK),
       "above and nth together fail the second request over the size");
    tide_resource_release(fault);

    fault = make((struct tide_fault_options){ .after_bytes = 1000 }, &upstream);
    ok(all_of(ask(fault, 999) == TIDE_OK, ask(fault, 1) == TIDE_OK, ask(fault, 1) == TIDE_ECAPACITY),
       "after_bytes fails every request once so many bytes were allocated");
    has_words(tide_error_text(), "chosen by after_bytes", "the error names after_bytes as the reason");
    tide_fault_restart(fault, 0);
    upstream->fail_allocate = 1;
    ok(all_of(ask(fault, 1000) == TIDE_ECAPACITY, ask(fault, 999) == TIDE_OK, ask(fault, 1) == TIDE_OK,
              ask(fault, 1) == TIDE_ECAPACITY),
       "after_bytes does not count requests that upstream has refused");
    tide_resource_release(fault);
}

#define CHANCE_TESTS 5

static void
check_chance(void)
{
    struct tide_fault_options options = { .probability = 0.25, .seed = 7 };
    struct tide_resource *fault = make(options, NULL), *again = make(options, NULL);
    struct tide_fault_figures counts = { TIDE_FIGURES(counts) };
    char first[128];

    snprintf(first, sizeof(first), "%s", pattern(fault, 1, 100));
    is_string(pattern(again, 1, 100), first, "the same seed fails the same requests");
    tide_resource_release(again);
    options.seed = 8;
    again = make(options, NULL);
    ok(strcmp(pattern(again, 1, 100), first) != 0, "another seed fails other requests");
    tide_resource_release(again);
    for (int i = 0; i < 9900; i++)
        ask(fault, 1);
    tide_fault_read(fault, &counts);
    /* the standard deviation of 10000 choices is 43; the seed is fixed, so that the test cannot fail by chance */
    ok(all_of(counts.planted > 2300, counts.planted < 2700),
       "a probability of 1/4 fails about a quarter of 10000 requests");
    diag("%" PRIu64 " of %" PRIu64, counts.planted, counts.counted);
    tide_resource_release(fault);
    fault = make((struct tide_fault_options){ .probability = 1 }, NULL);
    is_string(pattern(fault, 1, 20), "xxxxxxxxxxxxxxxxxxxx", "a probability of 1 fails all requests");
    tide_resource_release(fault);
    fault = make((struct tide_fault_options){ .probability = 1e-9 }, NULL);
    is_string(pattern(fault, 1, 20), "....................", "a probability of 10^-9 fails hardly any request");
    tide_resource_release(fault);
}

static void *
run(void *context)
{
    for (int i = 0; i < STEPS; i++)
        ask(context, (size_t)i % 1000);
    return NULL;
}

#define THREAD_TESTS 2

static void
check_threads(void)
{
    struct upstream *upstream;
    struct tide_resource *fault = make((struct tide_fault_options){ .every = 7 }, &upstream);
    struct tide_fault_figures counts = { TIDE_FIGURES(counts) };
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, fault);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tide_fault_read(fault, &counts);
    ok(all_of(counts.counted == THREADS * STEPS, counts.planted == THREADS * STEPS / 7),
       "every=7 fails as many requests of several threads as of one");
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0), "no block is lost under planted failures");
    tide_resource_release(fault);
}

static enum tide_status
refused(struct tide_fault_options options)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fault = &upstream->base;
    enum tide_status status;

    options.struct_size = sizeof(options);
    status = tide_fault_create(&upstream->base, &options, &fault);
    if (fault != NULL)
        status = TIDE_OK;
    tide_resource_release(fault);
    tide_resource_release(&upstream->base);
    return status;
}

#define BAD_TESTS 6

static void
check_bad_input(void)
{
    struct tide_fault_options options = { TIDE_OPTIONS(options), .nth = 1 };
    struct upstream *upstream = upstream_create();
    struct tide_resource *fault;
    struct tide_fault_figures counts = { TIDE_FIGURES(counts) };

    ok(refused((struct tide_fault_options){ 0 }) == TIDE_EINVAL, "options that choose no request are refused");
    ok(all_of(refused((struct tide_fault_options){ .probability = -0.1 }) == TIDE_EINVAL,
              refused((struct tide_fault_options){ .probability = 1.1 }) == TIDE_EINVAL,
              refused((struct tide_fault_options){ .probability = NAN }) == TIDE_EINVAL,
              refused((struct tide_fault_options){ .probability = 1e-10 }) == TIDE_EINVAL),
       "a probability below 10^-9, above 1 or NaN is refused");
    ok(refused((struct tide_fault_options){ .nth = 1, .seed = 1 }) == TIDE_EINVAL,
       "a seed without a probability is refused");
    ok(refused((struct tide_fault_options){ .nth = 1, .status = TIDE_EIO }) == TIDE_EINVAL &&
           refused((struct tide_fault_options){ .nth = 1, .status = (enum tide_status)99 }) == TIDE_EINVAL,
       "a status that no allocation returns is refused");
    ok(all_of(tide_fault_create(NULL, &options, &fault) == TIDE_EINVAL, fault == NULL,
              tide_fault_create(&upstream->base, NULL, &fault) == TIDE_EINVAL,
              tide_fault_create(&upstream->base, &options, NULL) == TIDE_EINVAL),
       "NULL in place of a pointer is refused");
    ok(all_of(tide_fault_restart(&upstream->base, 1) == TIDE_EINVAL, tide_fault_restart(NULL, 1) == TIDE_EINVAL,
              tide_fault_read(&upstream->base, &counts) == TIDE_EINVAL, tide_fault_read(NULL, &counts) == TIDE_EINVAL),
       "a restart or a read of another kind of layer is refused");
    tide_resource_release(&upstream->base);
}

static const struct stack_text texts[] = {
    { "fault(nth=3)|sim", "fault(nth=3) | sim" },
    { "fault(every=2, nth=1)|sim", "fault(nth=1, every=2) | sim" },
    { "fault(probability=0.25, seed=9)|sim", "fault(probability=0.25, seed=9) | sim" },
    { "fault(probability=0.1%)|sim", "fault(probability=0.001) | sim" },
    { "fault(probability=100%)|sim", "fault(probability=1.0) | sim" },
    { "fault(probability=0.000000001)|sim", "fault(probability=0.000000001) | sim" },
    { "fault(above=1MiB, after_bytes=2GiB, status=driver)|sim",
      "fault(above=1MiB, after_bytes=2GiB, status=driver) | sim" },
    { "fault|sim",
      "stack text, column 1: fault: nothing chosen, expected nth, every, probability, above or after_bytes" },
    { "fault(nth=1, seed=2)|sim", "stack text, column 19: fault: a seed without a probability" },
    { "fault(probability=1.5)|sim", "stack text, column 19: fault: argument 'probability': '1.5' is over 1, "
                                    "expected 0.000000001 to 1, or as a "
                                    "percentage such as 5%" },
    { "fault(probability=0.0000000001%)|sim",
      "stack text, column 19: fault: argument 'probability': '0.0000000001%' has more than 9 decimals, expected "
      "0.000000001 to 1, or as a percentage such as 5%" },
    { "fault(probability=0)|sim",
      "stack text, column 19: fault: argument 'probability': '0' is too small, expected 0.000000001 to 1, or as a "
      "percentage such as 5%" },
    { "fault(probability=1x)|sim", "stack text, column 19: fault: argument 'probability': '1x' is no number from 0 to "
                                   "1, expected 0.000000001 to 1, or "
                                   "as a percentage such as 5%" },
    { "fault(nth=0)|sim", "stack text, column 11: fault: argument 'nth': '0' is too small, expected a number from 1" },
};

#define TEXT_TESTS ((int)(sizeof(texts) / sizeof(texts[0])))

static struct tide_resource *
create(void *context)
{
    (void)context;
    return make((struct tide_fault_options){ .nth = UINT64_MAX }, NULL);
}

int
main(void)
{
    const struct contract contract = {
        .name = "fault", .create = create, .largest_bytes = KIB, .knows_pointers = true
    };

    plan(CONTRACT_TESTS + CHOICE_TESTS + CHANCE_TESTS + THREAD_TESTS + BAD_TESTS + TEXT_TESTS);
    contract_check(&contract);
    check_choice();
    check_chance();
    check_threads();
    check_bad_input();
    check_texts(texts, TEXT_TESTS);
    return done();
}
