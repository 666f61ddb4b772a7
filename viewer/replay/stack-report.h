/* Asks the layers of a stack for their figures. */
#ifndef VIEWER_REPLAY_STACK_REPORT_H
#define VIEWER_REPLAY_STACK_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>
#include <tidemark/statistics.h>

struct stack_layer {
    struct tide_resource *resource; /* borrows */
    char text[160];                 /* as in stack text: "limit(4GiB)"; cut where it is long */
    bool has_used;
    bool has_reserved;
    bool has_statistics;
    uint64_t used_bytes; /* a layer that does not count reports the figure of the layer below */
    uint64_t reserved_bytes;
    struct tide_statistics_figures statistics;
};

struct stack_report {
    struct stack_layer *layers; /* owns; from the top down, bins in front of what is below them */
    size_t count;
    size_t capacity;
};

/* Ask every layer of the stack under `top`. COMMAND_FINE, or COMMAND_WRONG after a message. */
int stack_report_make(struct tide_resource *top, struct stack_report *out);

void stack_report_free(struct stack_report *report);

/* The whole stack as text, to be freed; NULL: no memory. */
char *stack_text(struct tide_resource *top);

#endif
