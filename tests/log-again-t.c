/* Tests which layers of stacks that have ended serve the next stack: of the same shape, in the order of the numbers. */
#include "config.h"

#include "adaptors/log/again.h"

#include "tap.h"
#include "trace.h"

#include <tidemark/binning.h>
#include <tidemark/stack.h>

static const char *trace;

static struct tide_resource *
base(void)
{
    struct tide_resource *out = NULL;

    if (tide_stack_parse("sim", &out) != TIDE_OK)
        diag("%s", tide_error_text());
    return out;
}

/* A log, with the path of the trace or without one. It holds `upstream` alone. */
static struct tide_resource *
log_over(const char *path, struct tide_resource *upstream)
{
    const struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct tide_resource *out = NULL;

    if (tide_log_create(upstream, &options, &out) != TIDE_OK)
        diag("%s", tide_error_text());
    tide_resource_release(upstream);
    return out;
}

/* A log of the trace over binning: blocks up to 1 MiB come from a base of its own, others from `upstream`. */
static struct tide_resource *
binned(struct tide_resource *upstream)
{
    const struct tide_upstream bin = { .limit_bytes = 1 << 20, .resource = base() };
    const struct tide_binning_options options = { TIDE_OPTIONS(options), .bins = &bin, .bin_count = 1 };
    struct tide_resource *out = NULL;

    if (tide_binning_create(upstream, &options, &out) != TIDE_OK)
        diag("%s", tide_error_text());
    tide_resource_release(bin.resource);
    tide_resource_release(upstream);
    return log_over(trace, out);
}

static void
use(struct tide_resource *top)
{
    void *block;

    if (tide_allocate(top, 1000, 256, 0, &block) == TIDE_OK)
        tide_deallocate(top, block, 1000, 256, 0);
    tide_log_flush(top);
}

static int64_t
layers(void)
{
    return sql_number(trace, "SELECT count(*) FROM layer");
}

int
main(void)
{
    struct tide_resource *keeper, *shared, *holder, *top;
    int64_t before;

    plan(4);
    trace = scratch("again.db");
    keeper = log_over(trace, base());
    tidei_log_use_again(keeper);

    use(top = binned(log_over(NULL, base())));
    tide_resource_release(top);
    tide_log_flush(keeper);
    before = layers();
    use(top = binned(log_over(NULL, base())));
    ok(layers() == before, "a stack of the shape of one that has ended has its layers");
    tide_resource_release(top);

    /* The log without a path has numbers from another stack, which lives. */
    shared = log_over(NULL, base());
    holder = log_over(trace, tide_resource_retain(shared));
    use(holder);
    before = layers();
    use(top = binned(tide_resource_retain(shared)));
    ok(layers() == before + 3, "a stack over another one's log has layers of its own above that");
    ok(sql_number(trace, "SELECT count(*) FROM pool_sample JOIN layer USING (layer_id) WHERE kind = 'log'") == 0,
       "the figures of its base are not under the number of a log");
    tide_resource_release(top);
    before = layers();
    use(top = binned(log_over(NULL, base())));
    ok(layers() == before, "its end changes nothing for the shape of the first one");
    tide_resource_release(top);
    tide_resource_release(holder);
    tide_resource_release(shared);
    tide_resource_release(keeper);
    return done();
}
