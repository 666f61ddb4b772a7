/*
 * The targets of `make fuzz`: what each makes of an input, whoever calls it. libfuzzer.c does with clang's libFuzzer;
 * corpus-t.c, in `make check`, with the inputs that are kept in corpus/.
 *
 * A target runs `tidemark` itself in this process, with main renamed, so that nothing stands between the input and
 * what a user would run. It aborts where the command breaks a promise.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name; /* of its folder in corpus/ */
    /* Every command that the target has, or the one that the input's last byte picks. */
    void (*run)(const uint8_t *data, size_t size, bool every);
};

#define FUZZ_TARGETS 4

extern const struct fuzz_target fuzz_targets[FUZZ_TARGETS];

/* NULL where there is none of this name. */
const struct fuzz_target *fuzz_find(const char *name);

/* Make the folder in which inputs are written. False: it cannot be made, with errno. */
bool fuzz_begin(void);
void fuzz_end(void);

/* The same for an input that is no database: the rows of one. Writes it to `path`; see rows.c. */
void fuzz_write_rows(const char *path, const char *schema, const char *const *tables, size_t table_count,
                     const uint8_t *data, size_t size);

#endif
