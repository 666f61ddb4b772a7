/* The names and descriptions of the status values. */
#include <stddef.h>

#include <tidemark/status.h>

/* Indexed by value. Traces store the values, so rows never move. */
static const struct {
    const char *name;
    const char *text;
} statuses[] = {
    [TIDE_OK] = { "TIDE_OK", "success" },
    [TIDE_EINVAL] = { "TIDE_EINVAL", "an argument is out of its range" },
    [TIDE_ENOMEM] = { "TIDE_ENOMEM", "out of host memory" },
    [TIDE_ECAPACITY] = { "TIDE_ECAPACITY", "the base has no more memory to give" },
    [TIDE_ELIMIT] = { "TIDE_ELIMIT", "a limit refused the request" },
    [TIDE_EOVERFLOW] = { "TIDE_EOVERFLOW", "a size overflows when rounded up" },
    [TIDE_EUNSUPPORTED] = { "TIDE_EUNSUPPORTED", "this resource, build or machine cannot do that" },
    [TIDE_EDRIVER] = { "TIDE_EDRIVER", "a driver call failed" },
    [TIDE_EPOINTER] = { "TIDE_EPOINTER", "the pointer is none that this resource has given out" },
    [TIDE_EMISMATCH] = { "TIDE_EMISMATCH", "size or alignment differ from the allocation's" },
    [TIDE_ESYNTAX] = { "TIDE_ESYNTAX", "stack text that cannot be read" },
    [TIDE_EEXIST] = { "TIDE_EEXIST", "the trace exists and may not be overwritten" },
    [TIDE_EIO] = { "TIDE_EIO", "the file system or SQLite failed" },
    [TIDE_EFORMAT] = { "TIDE_EFORMAT", "no trace, or one of a newer format" },
    [TIDE_EBUSY] = { "TIDE_EBUSY", "another process records into this trace" },
    [TIDE_EUPSTREAM] = { "TIDE_EUPSTREAM", "the layer below gave out memory that it cannot have meant" },
    [TIDE_EDAMAGED] = { "TIDE_EDAMAGED", "bytes around an allocation, or of a freed one, have changed" },
    [TIDE_ESIGNAL] = { "TIDE_ESIGNAL", "called by a signal handler within another call of its thread" },
};

#define STATUS_COUNT (sizeof(statuses) / sizeof(statuses[0]))

const char *
tide_status_name(enum tide_status status)
{
    return (size_t)status < STATUS_COUNT ? statuses[(size_t)status].name : "TIDE_UNKNOWN";
}

const char *
tide_status_text(enum tide_status status)
{
    return (size_t)status < STATUS_COUNT ? statuses[(size_t)status].text : "an unknown status";
}
