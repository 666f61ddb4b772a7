/* What an operation of Tidemark can come to, and the words for it. */
#ifndef TIDEMARK_STATUS_H
#define TIDEMARK_STATUS_H

#include <tidemark/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The numbers stand in traces (allocation.status) and never change; new ones are added at the end.
 */
enum tide_status {
    TIDE_OK = 0,
    TIDE_EINVAL = 1,       /* an argument is out of its range */
    TIDE_ENOMEM = 2,       /* host memory for Tidemark's own use */
    TIDE_ECAPACITY = 3,    /* the base has no more memory to give */
    TIDE_ELIMIT = 4,       /* a limit refused the request */
    TIDE_EOVERFLOW = 5,    /* a size overflows when rounded up */
    TIDE_EUNSUPPORTED = 6, /* this resource, build or machine cannot do that */
    TIDE_EDRIVER = 7,      /* a driver call failed: tide_error_driver() has its CUresult */
    TIDE_EPOINTER = 8,     /* the pointer is none that this resource has given out */
    TIDE_EMISMATCH = 9,    /* size or alignment differ from the allocation's */
    TIDE_ESYNTAX = 10,     /* stack text that cannot be read */
    TIDE_EEXIST = 11,      /* the trace exists and may not be overwritten */
    TIDE_EIO = 12,         /* the file system or SQLite failed */
    TIDE_EFORMAT = 13,     /* no trace, or one of a newer format */
    TIDE_EBUSY = 14,       /* another process records into this trace */
    TIDE_EUPSTREAM = 15,   /* the layer below gave out memory that it cannot have meant */
    TIDE_EDAMAGED = 16,    /* bytes around an allocation, or of one that was freed, have changed */
};

/* The name of the enumerator, "TIDE_ELIMIT"; "TIDE_UNKNOWN" for any other number. Never NULL. Since 0.1. */
TIDE_EXPORT const char *tide_status_name(enum tide_status status);

/* The meaning in a few words, "a limit refused the request". Never NULL. Since 0.1. */
TIDE_EXPORT const char *tide_status_text(enum tide_status status);

#ifdef __cplusplus
}
#endif
#endif
