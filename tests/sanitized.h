/* The sanitizer of this build, for any compiler. Tests skip what a sanitizer does not support. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

#include <stdbool.h>

#if defined(__has_feature)
#define SANITIZED_FEATURE(name) __has_feature(name)
#else
#define SANITIZED_FEATURE(name) 0
#endif

/*
 * GCC 12's AddressSanitizer does not take its allocator's locks around fork(): a child whose parent's other thread was
 * allocating hangs in the sanitizer's own mutex (seen in gdb).
 */
#if defined(__SANITIZE_ADDRESS__) || SANITIZED_FEATURE(address_sanitizer)
#define SANITIZED_ADDRESS true
#else
#define SANITIZED_ADDRESS false
#endif

/* ThreadSanitizer does not support a child that continues to use locks and threads. */
#if defined(__SANITIZE_THREAD__) || SANITIZED_FEATURE(thread_sanitizer)
#define SANITIZED_THREAD true
#else
#define SANITIZED_THREAD false
#endif

#define SANITIZED (SANITIZED_ADDRESS || SANITIZED_THREAD)

/*
 * How many rounds of the same kind a test has: all of them, or fewer in a build with a sanitizer, where each takes many
 * times as long and what a sanitizer finds does not depend on their number. In scripts: `fewer` of tests/tap.sh.
 */
#define FEWER(all, sanitized) (SANITIZED ? (sanitized) : (all))

#endif
