/*
 * The targets of `make fuzz`: each runs one input. libfuzzer.c calls them from clang's libFuzzer; corpus-t.c, in `make
 * check`, calls them with the inputs in corpus/. A target runs `tidemark` in this process, with main renamed, so that
 * it runs what a user would run; the target of program files calls the reader itself, since a lookup goes through libdw
 * where that is installed. It aborts if the command breaks a promise.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name; /* the name of its folder in corpus/ */
    /* Runs every command of the target, or the one that the input's last byte selects. */
    void (*run)(const uint8_t *data, size_t size, bool every);
};

#define FUZZ_TARGETS 6

extern const struct fuzz_target fuzz_targets[FUZZ_TARGETS];

/* NULL if there is no target of this name. */
const struct fuzz_target *fuzz_find(const char *name);

/* Make the folder for the inputs. False, with errno, if that fails. */
bool fuzz_begin(void);
void fuzz_end(void);

/* Write the trace that an input of the target `trace` stands for. */
void fuzz_write_trace(const char *path, const uint8_t *data, size_t size);

/* Write the rows of an input that is no database to `path`; see rows.c. */
void fuzz_write_rows(const char *path, const char *schema, const char *const *tables, size_t table_count,
                     const uint8_t *data, size_t size);

#endif
