/* Runs several analyses of one trace together. */
#include "config.h"

#include <stdlib.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/turns.h"

/* Ask each what it wants to see; parts[i] is to read for passes[i]. */
static int
turns_ask(struct turns *list, size_t count, struct scan_part *parts, struct scan_pass *passes, size_t *part_count)
{
    int status = COMMAND_FINE;

    *part_count = 0;
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        struct scan_pass *pass = &passes[*part_count];

        if (list[i].done)
            continue;
        *pass = (struct scan_pass){ NULL, list[i].context };
        status = list[i].next(list[i].context, pass);
        list[i].done = pass->unit == NULL;
        if (!list[i].done)
            parts[(*part_count)++] = (struct scan_part){ list[i].filter, pass, 1 };
    }
    return status;
}

int
turns_run(const struct trace *trace, struct turns *list, size_t count)
{
    struct scan_part *parts = calloc(count + 1, sizeof(*parts));
    struct scan_pass *passes = calloc(count + 1, sizeof(*passes));
    size_t part_count = 1;
    int status = parts != NULL && passes != NULL ? COMMAND_FINE : trace_broken(trace, "no memory");

    while (status == COMMAND_FINE && part_count > 0) {
        status = turns_ask(list, count, parts, passes, &part_count);
        if (status == COMMAND_FINE && part_count > 0)
            status = scan_run_parts(trace, parts, part_count);
    }
    free(parts);
    free(passes);
    return status;
}

int
turns_run_one(struct view *view, int status, int (*next)(void *context, struct scan_pass *pass),
              void (*release)(void *context), void *context)
{
    struct turns turns = { .filter = &view->filter, .next = next, .context = context };

    if (status == COMMAND_FINE)
        status = turns_run(&view->trace, &turns, 1);
    if (status != COMMAND_FINE)
        release(context);
    return status;
}
