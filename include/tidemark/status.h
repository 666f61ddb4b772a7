/* Status values: what every function that can fail returns. */
#ifndef TIDEMARK_STATUS_H
#define TIDEMARK_STATUS_H

#include <tidemark/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The numbers never change: traces contain them (allocation.status). New ones are added at the end. tide_error_text()
 * says in words what happened.
 */
enum tide_status {
    TIDE_OK = 0,
    TIDE_EINVAL = 1,       /* an argument is out of its range */
    TIDE_ENOMEM = 2,       /* Tidemark got no host memory for its own use */
    TIDE_ECAPACITY = 3,    /* the base has no more memory */
    TIDE_ELIMIT = 4,       /* a limit refused the request */
    TIDE_EOVERFLOW = 5,    /* a size overflows when it is rounded up */
    TIDE_EUNSUPPORTED = 6, /* this resource, build or machine cannot do that */
    TIDE_EDRIVER = 7,      /* a call of the CUDA driver failed; tide_error_driver() is its CUresult */
    TIDE_EPOINTER = 8,     /* this resource did not hand out the pointer, or it was freed already */
    TIDE_EMISMATCH = 9,    /* size or alignment differ from those of the allocation */
    TIDE_ESYNTAX = 10,     /* stack text that cannot be parsed */
    TIDE_EEXIST = 11,      /* the trace exists and may not be overwritten */
    TIDE_EIO = 12,         /* the file system or SQLite failed */
    TIDE_EFORMAT = 13,     /* the file is not a trace, is damaged, or has a newer format */
    TIDE_EBUSY = 14,       /* another process is using this trace */
    TIDE_EUPSTREAM = 15,   /* the layer below gave out memory that cannot be right: NULL, unaligned, or in use */
    TIDE_EDAMAGED = 16,    /* bytes around a block, or in a freed block, have changed */
    TIDE_ESIGNAL = 17,     /* the caller is a signal handler that has interrupted another call of its thread */
};

/*
 * The name of the enumerator, "TIDE_ELIMIT"; "TIDE_UNKNOWN" for any other number. Never NULL.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT const char *tide_status_name(enum tide_status status);

/*
 * The meaning in a few words, "a limit refused the request". Never NULL. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT const char *tide_status_text(enum tide_status status);

#ifdef __cplusplus
}
#endif
#endif
