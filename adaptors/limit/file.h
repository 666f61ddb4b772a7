/*
 * The file of a budget that processes share (shared.h): its slots and lanes, its locks, and how it is opened.
 *
 * All functions but those that open, and the two for the lock, are called with the lock of the file held.
 */
#ifndef LIMIT_FILE_H
#define LIMIT_FILE_H

#include "adaptors/limit/shared.h"

#define TIDEI_LIMIT_SLOTS 256

#define TIDEI_LIMIT_USED    1u
#define TIDEI_LIMIT_LEAVING 2u /* by a process that is in exit(), and does not keep the file from being removed */

struct tidei_limit_slot {
    _Alignas(64) _Atomic uint32_t used; /* 0: free, whatever the lanes have; else one of the words below */
    uint32_t pid;                       /* for people */
    struct tidei_limit_lane lanes[TIDEI_LIMIT_LANES];
};

/* All but the leases is guarded by the lock of the file. */
struct tidei_limit_file {
    char magic[16]; /* written last */
    uint32_t version, slot_count, lane_count;
    _Atomic uint32_t closing; /* lanes may be closed */
    uint64_t limit_bytes;
    _Atomic uint32_t taking;         /* the number of a lane from 1, whose lease is taken back; 0: none */
    _Atomic uint64_t taking_granted; /* and its grant after that */
    uint32_t slots_end;              /* above the highest slot ever used */
    uint32_t served, patience;       /* requests since the leases were taken back, and before they are granted again */
    struct tidei_limit_slot slots[TIDEI_LIMIT_SLOTS];
};

/* lanes.c */

/* What is granted to a process, or to all of them; and what is not granted. */
uint64_t tidei_limit_granted(const struct tidei_limit_slot *slot);
uint64_t tidei_limit_sum(const struct tidei_limit_file *file);
uint64_t tidei_limit_room(const struct tidei_limit_file *file);
bool tidei_limit_slot_is_used(const struct tidei_limit_slot *slot);

/* Take back the leases of all processes, all at one moment. Afterwards the grants are what is outstanding. */
void tidei_limit_recall(struct tidei_limit_file *file);

/* What a process has outstanding, as its lanes say; of one moment only while they are not used. */
uint64_t tidei_limit_outstanding(const struct tidei_limit_slot *slot);

/* The same at least, at any time: what is leased by a closed lane counts, for it may be taken back at this moment. */
uint64_t tidei_limit_outstanding_most(const struct tidei_limit_slot *slot);

/* What all processes have outstanding at one moment, and the one with the slot `own` of it. They keep their leases. */
void tidei_limit_look(struct tidei_limit_file *file, uint32_t own, uint64_t *used_bytes, uint64_t *own_bytes);

/* Complete what a process had begun that was killed with the lock. */
void tidei_limit_repair(struct tidei_limit_file *file);

/* file.c */

/* The path for the name of a budget, into *out (owned by the caller). Errors as of tidei_limit_shared_attach. */
enum tide_status tidei_limit_path(const char *name, char **out);

/*
 * Map the file of `shared`, whose path and limit_bytes are set, and take a slot. On success `file` and `slot` are set
 * and *claim is open, else it is closed. Errors as of tidei_limit_shared_attach.
 */
enum tide_status tidei_limit_open(struct tidei_limit_shared *shared, struct tidei_claim *claim, const char *name);

/*
 * Lock the file of the budget called `name`, and complete what its last holder has left. Waits for other processes.
 * TIDE_EIO, with the error text set: it cannot be locked, as where the program has closed its descriptor.
 */
enum tide_status tidei_limit_lock(struct tidei_limit_file *file, const struct tidei_claim *claim, const char *name);
/* The same where nobody has it locked; repairs nothing. */
bool tidei_limit_try_lock(const struct tidei_claim *claim);
void tidei_limit_unlock(const struct tidei_claim *claim);

/* Empty the slots of dead processes: those whose byte nobody has locked. Returns the number of the others but `own`. */
uint32_t tidei_limit_sweep(struct tidei_limit_file *file, const struct tidei_claim *claim, uint32_t own);

/* Whether no process but `own` needs the file: after a sweep, others are only leaving, with nothing outstanding. */
bool tidei_limit_is_last(struct tidei_limit_file *file, const struct tidei_claim *claim, uint32_t own);

/* Remove the files in the folder of `path` that processes have left which were killed, if that is /dev/shm. */
void tidei_limit_clear(const char *path);

/* Remove the file at `path`, unless another one has taken its place. */
void tidei_limit_remove(const char *path, const struct tidei_claim *claim);

#endif
