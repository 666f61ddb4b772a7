/*
 * What the memory of a training step is, at one moment: parameters, gradients, states of the optimizer, activations,
 * and workspace, of which module.
 *
 * The program says by tags in which pass of a step it is: `forward`, `backward` or `optimizer` is one of the levels of
 * a tag (viewer/read/tag-levels.h), and the levels below it name the module; what is tagged `parameters` are those. The
 * rest is told by lifetimes. A pass lasts from the first allocation with its tag to the first one of another pass.
 *
 * - What is freed in the pass that allocated it is workspace.
 * - What forward allocates and backward finds are activations, and in later steps they are left from earlier ones.
 * - What backward allocates and leaves are gradients. Its end is the beginning of the optimizer; where none follows,
 *   its last allocation, since nothing says when the program goes on.
 * - What the optimizer allocates and leaves are its states.
 * - Without a tag `parameters` they are what was allocated before the first pass and was not freed in the first step.
 *
 * The passes are found as they stand in the trace, so an allocation in a forward inside of a backward, which makes
 * activations again, belongs to backward: it is an activation. So is one that an other thread than that of the first
 * forward makes there, if that thread has run backward: such threads have no tags of the program around them.
 */
#ifndef VIEWER_ANALYSIS_TRAINING_H
#define VIEWER_ANALYSIS_TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/analysis/groups.h"
#include "viewer/base/id-map.h"
#include "viewer/read/view.h"

/* Modules are summed up until there are no more than so many, unless --depth says how deep. */
#define TRAINING_MODULES 20

enum training_phase {
    TRAINING_NO_PHASE,
    TRAINING_FORWARD,
    TRAINING_BACKWARD,
    TRAINING_OPTIMIZER,
    TRAINING_SETUP, /* `parameters` */
};

enum training_kind {
    TRAINING_PARAMETERS,
    TRAINING_GRADIENTS,
    TRAINING_STATES, /* of the optimizer */
    TRAINING_ACTIVATIONS,
    TRAINING_LEFT, /* activations of earlier steps */
    TRAINING_WORKSPACE,
    TRAINING_OTHER,
    TRAINING_KINDS,
};

struct training_tag {
    enum training_phase outer; /* of the outermost level that names one: the pass */
    enum training_phase inner; /* of the innermost one: what is done there */
    uint32_t module;           /* its number; of each text one */
};

struct training_pass {
    enum training_phase phase;
    uint64_t step; /* from 1; each forward begins one */
    int64_t begin_ns;
    int64_t last_ns; /* its last allocation */
};

struct training_module {
    char *name;         /* owns; "": none */
    int64_t tag_id;     /* one of its tags */
    size_t first_level; /* of that tag: where the name of the module begins */
    struct amount kinds[TRAINING_KINDS];
};

struct training {
    const struct names *names;    /* borrows */
    bool is_there;                /* the trace has tags of a forward, and of a backward or an optimizer */
    bool has_parameters;          /* it has tags of them */
    struct training_tag *tags;    /* owns; in the order of names->tags */
    struct training_pass *passes; /* owns; in the order of time */
    size_t pass_count;
    size_t pass_capacity;
    int64_t at_ns;                  /* the moment */
    int64_t at_id;                  /* the last allocation at that time; 0: all */
    int64_t forward_thread;         /* that made the first forward; 0: none did */
    struct id_map backward_threads; /* owns */
    uint64_t step;                  /* of the moment */
    int64_t settled_ns;             /* when the first step has ended */
    struct amount kinds[TRAINING_KINDS];
    struct training_module *modules; /* owns */
    size_t module_count;
    size_t module_capacity;
};

/*
 * Tell what is live at a time, of what the filters of `view` (borrowed) select: what was allocated until then, and not
 * freed before. `allocation_id`: not what was allocated after this one (0: all) at that time. Passes are found in all
 * that is recorded, whatever the filters. COMMAND_FINE, or another status and there is nothing to free.
 */
int training_make(const struct view *view, int64_t ns, int64_t allocation_id, struct training *out);

/* The pass at a time, borrowed; NULL: none has begun. */
const struct training_pass *training_pass_at(const struct training *training, int64_t ns);

/* The bytes of all kinds. */
uint64_t training_module_bytes(const struct training_module *module);

void training_free(struct training *training);

#endif
