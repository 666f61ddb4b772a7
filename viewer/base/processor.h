/* Chooses processors for what is measured next. */
#ifndef VIEWER_BASE_PROCESSOR_H
#define VIEWER_BASE_PROCESSOR_H

/*
 * Move the calling thread, and those that it starts from now on, to the processors on which work is fastest now, until
 * the next call. Where two processors share a core, work takes up to twice as long beside other work of the same core,
 * also that of another virtual machine, which nothing else tells. Of fewer than four processors none is left out; then
 * the thread starts on the fastest. Takes 0.2 ms for each of at most 64 processors. For one thread of the process.
 */
void processor_choose(void);

/* The same by another measure: `work` returns how long it took on the processor that it ran on. */
void processor_choose_by(double (*work)(void));

#endif
