/*
 * Finds free pieces by size: a tree finds the smallest piece of at least a size; classes find in constant time one of
 * about the right size.
 *
 * Sizes are counted in granules, the smallest unit that a pool hands out. No locks: the caller holds one.
 */
#ifndef TIDEI_FIT_H
#define TIDEI_FIT_H

#include "src/suballoc/piece.h"

#define TIDEI_FIT_OCTAVES 48

/*
 * Exact search. Each power of two has a tree by the binary digits of the size below the highest one. Pieces of one size
 * form a ring at one node. A search takes at most one step for each digit, however many pieces there are.
 */
struct tidei_tree {
    uint64_t octaves; /* a bit for each root that exists */
    struct tidei_piece *roots[TIDEI_FIT_OCTAVES];
};

void tidei_tree_add(struct tidei_tree *tree, struct tidei_piece *piece, unsigned granule_log2);
void tidei_tree_remove(struct tidei_tree *tree, struct tidei_piece *piece, unsigned granule_log2);

/* The smallest piece of at least `bytes`, among equals one of those added last; NULL where there is none. */
struct tidei_piece *tidei_tree_find(const struct tidei_tree *tree, uint64_t bytes, unsigned granule_log2);

/* The largest piece; NULL where there is none. */
struct tidei_piece *tidei_tree_largest(const struct tidei_tree *tree);

/*
 * Two levels: powers of two, each cut into 16 classes. A class holds the pieces from its size up to the next class's.
 * So a class that begins at or above a size holds no smaller piece.
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

/* The class of a piece of `granules` (not 0): the last one that does not begin above it. */
static inline unsigned
tidei_class_of(uint64_t granules)
{
    unsigned exponent;

    if (granules < TIDEI_FIT_STEPS)
        return (unsigned)granules;
    exponent = tidei_log2(granules) - TIDEI_FIT_STEPS_LOG2;
    return (exponent << TIDEI_FIT_STEPS_LOG2) + (unsigned)(granules >> exponent);
}

/* Round up to the size at which a class begins; each piece of one class is cut to that size. */
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

/* A piece of at least `bytes`: of its own class if a few tries find one, else of the next with any; NULL for none. */
struct tidei_piece *tidei_classes_find(const struct tidei_classes *classes, uint64_t bytes, unsigned granule_log2,
                                       enum tidei_links links);

/* The largest piece; NULL where there is none. Takes time for each piece of its class. TIDEI_LINKS_FIT only. */
struct tidei_piece *tidei_classes_largest(const struct tidei_classes *classes);

#endif
