/* Resolves the frames of this process's call stacks to names; keeps the files of the modules open meanwhile. */
#ifndef TIDEI_CONTEXT_FRAMES_H
#define TIDEI_CONTEXT_FRAMES_H

#include <tidemark/callstack.h>

struct tidei_frames;

/* NULL without host memory. */
struct tidei_frames *tidei_frames_begin(void);
void tidei_frames_end(struct tidei_frames *frames);

/* Resolve a return address; the texts are valid until the next call, or tidei_frames_end. */
void tidei_frames_find(struct tidei_frames *frames, uint64_t address, struct tide_frame *out);

#endif
