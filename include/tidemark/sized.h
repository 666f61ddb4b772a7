/*
 * Structs that begin with their size, so that they can grow: options that a program passes to the library, and figures
 * that the library fills for a program. Program and library may be of different versions, so such a struct may have
 * more fields in one than in the other.
 *
 *     struct tide_pool_options options = { TIDE_OPTIONS(options), .maximum_bytes = (uint64_t)8 << 30 };
 *     struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
 *
 * Every other field must be set, or be 0: an initializer, as here, does that. So must the fields called `reserved`.
 */
#ifndef TIDEMARK_SIZED_H
#define TIDEMARK_SIZED_H

#include <stddef.h>
#include <stdint.h>

/*
 * The size of options. The library takes fields that a smaller, older struct lacks for 0, which is the default of
 * every option. An option that is set in a larger, newer struct, and that the library does not know, is an error
 * (TIDE_EUNSUPPORTED). NULL in place of options means that all of them are 0.
 */
#define TIDE_OPTIONS(name) .struct_size = sizeof(name)

/*
 * The size of figures. The library fills as much as the struct has room for and never more. It puts 0 into fields
 * that it does not know. A size that was never set is an error (TIDE_EINVAL).
 */
#define TIDE_FIGURES(name) .struct_size = sizeof(name)

/*
 * Whether `field` is there in *pointer, a struct that the library passes to a callback. In these the library sets
 * struct_size, and a library that is older than the program's headers may not know every field that they have.
 */
#define TIDE_HAS_FIELD(pointer, field)                                                                                 \
    ((size_t)((const char *)(&(pointer)->field + 1) - (const char *)(pointer)) <= (pointer)->struct_size)

/*
 * 0 is the default of every option. Where an option has a default other than nothing, TIDE_NONE asks for nothing: no
 * cache, no threshold, no bytes. Only the options that say so take it.
 */
#define TIDE_NONE (UINT64_MAX - 1)

/* No bound; as much as there is. The same as 0 for an option whose default is to have no bound. */
#define TIDE_UNLIMITED UINT64_MAX

#endif
