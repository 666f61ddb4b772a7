/*
 * Finds free pieces by size: a tree that knows the smallest piece of at least a size, and classes that take constant
 * time and know one of about the right size.
 *
 * Sizes are counted in granules, the least that a pool hands out. No locks: the caller has one.
 */
#ifndef TIDEI_FIT_H
#define TIDEI_FIT_H

#include "src/suballoc/piece.h"

#define TIDEI_FIT_OCTAVES 48

/*
 * Exact: for each power of two a tree by the digits of the size below its highest one; pieces of one size hang in a
 * ring at one node. A step for each digit at most, so logarithmic in the size, whatever their number.
 */
struct tidei_tree {
    uint64_t octaves; /* a bit for each root that is there */
    struct tidei_piece *roots[TIDEI_FIT_OCTAVES];
};

void tidei_tree_add(struct tidei_tree *tree, struct tidei_piece *piece, unsigned granule_log2);
void tidei_tree_remove(struct tidei_tree *tree, struct tidei_piece *piece, unsigned granule_log2);

/* The smallest piece of at least `bytes`, one of those that were added last where several are; NULL where none is. */
struct tidei_piece *tidei_tree_find(const struct tidei_tree *tree, uint64_t bytes, unsigned granule_log2);

/* The largest piece; NULL where none is. */
struct tidei_piece *tidei_tree_largest(const struct tidei_tree *tree);

/*
 * Two levels: powers of two, each cut into 16 classes. A piece lies in the class that its size is not below; a class
 * that begins at a size or above it holds nothing smaller.
 */
#define TIDEI_FIT_STEPS_LOG2 4u
#define TIDEI_FIT_STEPS      (1u << TIDEI_FIT_STEPS_LOG2)
#define TIDEI_FIT_LEVELS     (TIDEI_FIT_OCTAVES - TIDEI_FIT_STEPS_LOG2 + 1)
#define TIDEI_FIT_CLASSES    (TIDEI_FIT_LEVELS * TIDEI_FIT_STEPS)

struct tidei_classes {
    uint64_t levels; /* a bit for each level that has classes with pieces */
    uint16_t steps[TIDEI_FIT_LEVELS];
    struct tidei_piece *first[TIDEI_FIT_CLASSES];
};

static inline unsigned
tidei_log2(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* The class that `granules` (not 0) is not below. */
static inline unsigned
tidei_class_of(uint64_t granules)
{
    unsigned exponent;

    if (granules < TIDEI_FIT_STEPS)
        return (unsigned)granules;
    exponent = tidei_log2(granules) - TIDEI_FIT_STEPS_LOG2;
    return (exponent << TIDEI_FIT_STEPS_LOG2) + (unsigned)(granules >> exponent);
}

/* Granules up to where a class begins: what each piece of one class is cut to. */
static inline uint64_t
tidei_class_round_up(uint64_t granules)
{
    uint64_t step;

    if (granules < 2 * TIDEI_FIT_STEPS)
        return granules;
    step = UINT64_C(1) << (tidei_log2(granules) - TIDEI_FIT_STEPS_LOG2);
    return (granules + step - 1) & ~(step - 1);
}

/* Which links of a piece a set of classes uses. */
enum tidei_links { TIDEI_LINKS_FIT, TIDEI_LINKS_OWN };

void tidei_classes_add(struct tidei_classes *classes, struct tidei_piece *piece, unsigned granule_log2,
                       enum tidei_links links);
void tidei_classes_remove(struct tidei_classes *classes, struct tidei_piece *piece, unsigned granule_log2,
                          enum tidei_links links);

/* A piece of at least `bytes`, out of the smallest class where one is found in constant time; NULL where none is. */
struct tidei_piece *tidei_classes_find(const struct tidei_classes *classes, uint64_t bytes, unsigned granule_log2,
                                       enum tidei_links links);

/* The largest piece; NULL where none is. Takes time for each piece of its class. TIDEI_LINKS_FIT alone. */
struct tidei_piece *tidei_classes_largest(const struct tidei_classes *classes);

#endif
