/* Records marks and misuse, which go into every trace of the process. */
#include "config.h"

#include <tidemark/tag.h>

#include "src/resource/interrupted.h"
#include "src/resource/resource.h"
#include "src/sync/inside.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"

#define MARK_TEXT_MAX 1023

void
tidei_trace_mark(const char *text)
{
    struct tidei_record record = { .kind = TIDEI_RECORD_MARK };

    tidei_recorder_revive_all();
    tidei_producer_tell(NULL, &record, text, tidei_utf8_length(text, MARK_TEXT_MAX));
}

enum tide_status
tide_mark(const char *text)
{
    if (tidei_interrupted_refuses())
        return TIDE_ESIGNAL;
    TIDEI_INSIDE(NULL);
    if (text == NULL)
        return tide_error_set(TIDE_EINVAL, "mark: the text is NULL");
    tidei_trace_mark(text);
    return TIDE_OK;
}

void
tidei_trace_misuse(const struct tidei_record *call, const struct tidei_misuse *misuse)
{
    struct tidei_record record = *call;

    record.kind = TIDEI_RECORD_MISUSE;
    tidei_recorder_revive_all();
    tidei_producer_tell(NULL, &record, misuse, sizeof(*misuse));
}
