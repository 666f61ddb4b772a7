/* Finds free pieces by size; see fit.h. */
#include "src/suballoc/fit.h"

/* Pieces of a request's own class that are tried, as some of them may be too small. */
#define CLASS_TRIES 8

/* The digits of the size below the highest one, shifted to the left end of the word. */
static uint64_t
tree_digits(uint64_t granules)
{
    unsigned octave = tidei_log2(granules);

    return octave == 0 ? 0 : granules << (64 - octave);
}

/* Add a piece to the ring of a node. It has itself for a parent; a node has another one, or is a root. */
static void
ring_add(struct tidei_piece *at, struct tidei_piece *piece)
{
    piece->fit.parent = piece;
    piece->next = at->next;
    piece->fit.before = at;
    at->next->fit.before = piece;
    at->next = piece;
}

void
tidei_tree_add(struct tidei_tree *tree, struct tidei_piece *piece, unsigned granule_log2)
{
    uint64_t granules = piece->bytes >> granule_log2;
    uint64_t digits = tree_digits(granules);
    unsigned octave = tidei_log2(granules);
    struct tidei_piece **place = &tree->roots[octave];
    struct tidei_piece *parent = NULL;

    while (*place != NULL) {
        if ((*place)->bytes == piece->bytes) {
            ring_add(*place, piece);
            return;
        }
        parent = *place;
        place = &parent->fit.child[digits >> 63];
        digits <<= 1;
    }
    piece->fit = (struct tidei_fit){ .parent = parent, .before = piece };
    piece->next = piece;
    *place = piece;
    tree->octaves |= UINT64_C(1) << octave;
}

/* The tree's pointer to a node. */
static struct tidei_piece **
tree_place(struct tidei_tree *tree, struct tidei_piece *node, unsigned octave)
{
    struct tidei_piece *parent = node->fit.parent;

    if (parent == NULL)
        return &tree->roots[octave];
    return &parent->fit.child[parent->fit.child[1] == node];
}

/* Put `other` in the node's place, with its children. */
static void
tree_replace(struct tidei_tree *tree, struct tidei_piece *node, struct tidei_piece *other, unsigned octave)
{
    *tree_place(tree, node, octave) = other;
    other->fit.parent = node->fit.parent;
    for (int i = 0; i < 2; i++) {
        other->fit.child[i] = node->fit.child[i];
        if (other->fit.child[i] != NULL)
            other->fit.child[i]->fit.parent = other;
    }
}

void
tidei_tree_remove(struct tidei_tree *tree, struct tidei_piece *piece, unsigned granule_log2)
{
    unsigned octave = tidei_log2(piece->bytes >> granule_log2);
    struct tidei_piece *next = piece->next;
    struct tidei_piece *leaf;

    piece->fit.before->next = next;
    next->fit.before = piece->fit.before;
    if (piece->fit.parent == piece)
        return;
    if (next != piece) {
        tree_replace(tree, piece, next, octave);
        return;
    }
    /* Any node below has the digits that lead here, so a leaf can take its place. */
    leaf = piece;
    while (leaf->fit.child[0] != NULL || leaf->fit.child[1] != NULL)
        leaf = leaf->fit.child[leaf->fit.child[1] != NULL];
    *tree_place(tree, leaf, octave) = NULL;
    if (leaf != piece)
        tree_replace(tree, piece, leaf, octave);
    if (tree->roots[octave] == NULL)
        tree->octaves &= ~(UINT64_C(1) << octave);
}

/* The smallest node in the tree under `node`: smaller ones lie on the left where there are both sides. */
static struct tidei_piece *
tree_smallest(struct tidei_piece *node)
{
    struct tidei_piece *best = node;

    for (; node != NULL; node = node->fit.child[node->fit.child[0] == NULL]) {
        if (node->bytes < best->bytes)
            best = node;
    }
    return best;
}

/*
 * The smallest piece of at least `bytes` within one octave. The path follows the digits of the size. All pieces to the
 * right of the path are larger; the last branch to the right has the smallest of them.
 */
static struct tidei_piece *
tree_find_within(struct tidei_piece *node, uint64_t bytes, uint64_t digits)
{
    struct tidei_piece *best = NULL, *right = NULL;

    while (node != NULL) {
        if (node->bytes >= bytes && (best == NULL || node->bytes < best->bytes))
            best = node;
        if (node->bytes == bytes)
            return node;
        if (digits >> 63 == 0 && node->fit.child[1] != NULL)
            right = node->fit.child[1];
        node = node->fit.child[digits >> 63];
        digits <<= 1;
    }
    if (right != NULL) {
        right = tree_smallest(right);
        if (best == NULL || right->bytes < best->bytes)
            best = right;
    }
    return best;
}

struct tidei_piece *
tidei_tree_find(const struct tidei_tree *tree, uint64_t bytes, unsigned granule_log2)
{
    uint64_t granules = (bytes + (UINT64_C(1) << granule_log2) - 1) >> granule_log2;
    unsigned octave = tidei_log2(granules);
    struct tidei_piece *best = tree_find_within(tree->roots[octave], bytes, tree_digits(granules));
    uint64_t larger;

    if (best == NULL) {
        larger = tree->octaves >> octave >> 1;
        if (larger == 0)
            return NULL;
        best = tree_smallest(tree->roots[octave + 1 + (unsigned)__builtin_ctzll(larger)]);
    }
    return best->next; /* from the ring, so that the node stays in the tree */
}

/* The largest node in the tree under `node`: larger ones lie on the right where there are both sides. */
static struct tidei_piece *
tree_largest(struct tidei_piece *node)
{
    struct tidei_piece *best = node;

    for (; node != NULL; node = node->fit.child[node->fit.child[1] != NULL]) {
        if (node->bytes > best->bytes)
            best = node;
    }
    return best;
}

struct tidei_piece *
tidei_tree_largest(const struct tidei_tree *tree)
{
    return tree->octaves != 0 ? tree_largest(tree->roots[tidei_log2(tree->octaves)]) : NULL;
}

static struct tidei_piece **
class_next(struct tidei_piece *piece, enum tidei_links links)
{
    return links == TIDEI_LINKS_FIT ? &piece->next : &piece->own.next;
}

static struct tidei_piece **
class_before(struct tidei_piece *piece, enum tidei_links links)
{
    return links == TIDEI_LINKS_FIT ? &piece->fit.before : &piece->own.before;
}

void
tidei_classes_add(struct tidei_classes *classes, struct tidei_piece *piece, unsigned granule_log2,
                  enum tidei_links links)
{
    unsigned class = tidei_class_of(piece->bytes >> granule_log2);
    struct tidei_piece *first = classes->first[class];

    *class_next(piece, links) = first;
    *class_before(piece, links) = NULL;
    if (first != NULL)
        *class_before(first, links) = piece;
    classes->first[class] = piece;
    classes->steps[class / TIDEI_FIT_STEPS] |= (uint16_t)(1u << class % TIDEI_FIT_STEPS);
    classes->levels |= UINT64_C(1) << class / TIDEI_FIT_STEPS;
}

void
tidei_classes_remove(struct tidei_classes *classes, struct tidei_piece *piece, unsigned granule_log2,
                     enum tidei_links links)
{
    unsigned class = tidei_class_of(piece->bytes >> granule_log2);
    struct tidei_piece *next = *class_next(piece, links);
    struct tidei_piece *before = *class_before(piece, links);

    if (next != NULL)
        *class_before(next, links) = before;
    if (before != NULL)
        *class_next(before, links) = next;
    else
        classes->first[class] = next;
    if (classes->first[class] != NULL)
        return;
    classes->steps[class / TIDEI_FIT_STEPS] &= (uint16_t) ~(1u << class % TIDEI_FIT_STEPS);
    if (classes->steps[class / TIDEI_FIT_STEPS] == 0)
        classes->levels &= ~(UINT64_C(1) << class / TIDEI_FIT_STEPS);
}

/* The first piece of the first non-empty class from `class` on. */
static struct tidei_piece *
classes_from(const struct tidei_classes *classes, unsigned class)
{
    unsigned level = class / TIDEI_FIT_STEPS;
    unsigned steps = (unsigned)classes->steps[level] >> class % TIDEI_FIT_STEPS;
    uint64_t levels;

    if (steps != 0)
        return classes->first[class + (unsigned)__builtin_ctz(steps)];
    levels = classes->levels >> level >> 1;
    if (levels == 0)
        return NULL;
    level += 1 + (unsigned)__builtin_ctzll(levels);
    return classes->first[level * TIDEI_FIT_STEPS + (unsigned)__builtin_ctz(classes->steps[level])];
}

struct tidei_piece *
tidei_classes_find(const struct tidei_classes *classes, uint64_t bytes, unsigned granule_log2, enum tidei_links links)
{
    unsigned class = tidei_class_of((bytes + (UINT64_C(1) << granule_log2) - 1) >> granule_log2);
    struct tidei_piece *piece = classes->first[class];

    for (int tries = 0; piece != NULL && tries < CLASS_TRIES; tries++) {
        if (piece->bytes >= bytes)
            return piece;
        piece = *class_next(piece, links);
    }
    return class + 1 < TIDEI_FIT_CLASSES ? classes_from(classes, class + 1) : NULL;
}

struct tidei_piece *
tidei_classes_largest(const struct tidei_classes *classes)
{
    struct tidei_piece *best;
    unsigned level;

    if (classes->levels == 0)
        return NULL;
    level = tidei_log2(classes->levels);
    best = classes->first[level * TIDEI_FIT_STEPS + tidei_log2(classes->steps[level])];
    for (struct tidei_piece *piece = best; piece != NULL; piece = piece->next) {
        if (piece->bytes > best->bytes)
            best = piece;
    }
    return best;
}
