/* Finds the word of a list that is nearest to a mistyped one. */
#include "config.h"

#include <string.h>

#include "viewer/base/nearest.h"

/* The fewest letters to add, drop, change or swap with a neighbour that turn `a` into `b`; at most 31 letters count. */
static unsigned
nearest_distance(const char *a, const char *b)
{
    unsigned table[32][32];
    size_t a_length = strnlen(a, 31);
    size_t b_length = strnlen(b, 31);

    for (size_t i = 0; i <= a_length; i++) {
        for (size_t j = 0; j <= b_length; j++) {
            unsigned best = i == 0 ? (unsigned)j : (unsigned)i;

            if (i > 0 && j > 0) {
                best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                if (table[i - 1][j] + 1 < best)
                    best = table[i - 1][j] + 1;
                if (table[i][j - 1] + 1 < best)
                    best = table[i][j - 1] + 1;
                if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && table[i - 2][j - 2] + 1 < best)
                    best = table[i - 2][j - 2] + 1;
            }
            table[i][j] = best;
        }
    }
    return table[a_length][b_length];
}

void
nearest_begin(struct nearest *nearest, const char *typed)
{
    *nearest = (struct nearest){ .typed = typed, .distance = 3 };
}

void
nearest_try(struct nearest *nearest, const char *word)
{
    size_t length = strlen(nearest->typed);
    unsigned distance = nearest_distance(nearest->typed, word);

    /* What begins as the word does may just be short. */
    if (length >= 2 && strncmp(nearest->typed, word, length) == 0)
        distance = 0;
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->word = word;
    }
}
