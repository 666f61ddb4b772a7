/* Says what the frames of this process's call stacks are, with the files of its modules open in between. */
#ifndef TIDEI_CONTEXT_FRAMES_H
#define TIDEI_CONTEXT_FRAMES_H

#include <tidemark/callstack.h>

struct tidei_frames;

/* NULL where host memory is short. */
struct tidei_frames *tidei_frames_begin(void);
void tidei_frames_end(struct tidei_frames *frames);

/* What is at an address that a call returns to; the texts stay until the next call or the end. */
void tidei_frames_find(struct tidei_frames *frames, uint64_t address, struct tide_frame *out);

#endif
