/* What exporters share: names of statuses, ids of threads and streams, and the filter for other events. */
#include "config.h"

#include <limits.h>

#include <tidemark/status.h>

#include "viewer/export/export.h"

const char *
export_status(int64_t status)
{
    return tide_status_name(status >= 0 && status <= INT_MAX ? (enum tide_status)status : (enum tide_status)INT_MAX);
}

uint64_t
export_thread(const struct export_job *export, int64_t thread_id)
{
    const struct name *thread = names_find(&export->view->names.threads, thread_id);

    return (uint64_t)(thread != NULL ? thread->number : thread_id);
}

uint64_t
export_stream(const struct export_job *export, int64_t stream_id)
{
    const struct name *stream = names_find(&export->view->names.streams, stream_id);

    return (uint64_t)(stream != NULL ? stream->number : stream_id);
}

bool
export_takes(const struct export_job *export, const struct scan_life *life)
{
    struct scan_life own = *life;

    return life->alloc_ns >= export->view->filter.from_ns && filter_takes(&export->view->filter, &own);
}

enum groups_by
export_groups(const struct export_options *options, const struct filter_options *filter)
{
    static const enum groups_by by[] = { GROUPS_CALLSTACK, GROUPS_FUNCTION, GROUPS_FILE, GROUPS_TAG };

    if (options->by >= 0)
        return by[options->by];
    return filter->depth > 0 ? GROUPS_TAG : GROUPS_CALLSTACK;
}
