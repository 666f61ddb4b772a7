/* Fits sizes of bins to traffic by dynamic programming over a histogram. */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "viewer/recommend/bins.h"

/* Blocks are multiples of this. Requests are counted by as many classes as there are up to 256 of them. */
#define BINS_STEP    256
#define BINS_CLASSES 256

struct bins_histogram {
    uint64_t size[BINS_CLASSES];            /* the largest of the class, a multiple of BINS_STEP */
    double weight[BINS_CLASSES];            /* requests that are live at the most */
    double weight_before[BINS_CLASSES + 1]; /* the sum over the classes before */
    double bytes_before[BINS_CLASSES + 1];
    size_t count;
};

/* The width of a class. */
static uint64_t
bins_width(uint64_t most)
{
    uint64_t width = (most + BINS_CLASSES - 1) / BINS_CLASSES;

    return (width + BINS_STEP - 1) / BINS_STEP * BINS_STEP;
}

/* Count for each class how many are live at the most; a bin holds that many blocks from then on. */
static void
bins_count(const struct traffic *traffic, uint64_t most, struct bins_histogram *out)
{
    const struct replay_input *input = &traffic->input;
    uint64_t width = bins_width(most);
    int64_t live[BINS_CLASSES] = { 0 };

    for (size_t i = 0; i < input->event_count; i++) {
        const struct replay_event *event = &input->events[i];
        uint64_t size = event->kind == REPLAY_MARK ? 0 : input->sizes[event->allocation];
        size_t class = (size_t)((size - 1) / width);

        if (size == 0 || size > most)
            continue;
        live[class] += event->kind == REPLAY_ALLOCATE ? 1 : -1;
        if ((double)live[class] > out->weight[class])
            out->weight[class] = (double)live[class];
        if (size > out->size[class])
            out->size[class] = (size + BINS_STEP - 1) / BINS_STEP * BINS_STEP;
    }
}

/* Leave out empty classes. */
static void
bins_pack(struct bins_histogram *histogram)
{
    for (size_t i = 0; i < BINS_CLASSES; i++) {
        if (histogram->weight[i] == 0)
            continue;
        histogram->size[histogram->count] = histogram->size[i];
        histogram->weight[histogram->count] = histogram->weight[i];
        histogram->weight_before[histogram->count + 1] =
            histogram->weight_before[histogram->count] + histogram->weight[i];
        histogram->bytes_before[histogram->count + 1] =
            histogram->bytes_before[histogram->count] + histogram->weight[i] * (double)histogram->size[i];
        histogram->count++;
    }
}

/* The bytes wasted where the classes from `first` to `last` have blocks of the size of the last. */
static double
bins_waste(const struct bins_histogram *histogram, size_t first, size_t last)
{
    double weight = histogram->weight_before[last + 1] - histogram->weight_before[first];
    double bytes = histogram->bytes_before[last + 1] - histogram->bytes_before[first];

    return weight * (double)histogram->size[last] - bytes;
}

/* Choose the ends of `count` runs of classes: least[k][i] is the waste of the first i classes in k runs. */
static size_t
bins_choose(const struct bins_histogram *histogram, size_t count, uint64_t sizes[BINS_MOST])
{
    size_t classes = histogram->count, runs = count < classes ? count : classes;
    double(*least)[BINS_CLASSES + 1] = calloc(runs + 1, sizeof(*least));
    size_t(*begin)[BINS_CLASSES + 1] = calloc(runs + 1, sizeof(*begin));

    if (least == NULL || begin == NULL)
        runs = 0;
    for (size_t i = 0; runs > 0 && i <= classes; i++)
        least[0][i] = i == 0 ? 0 : INFINITY;
    for (size_t k = 1; k <= runs; k++) {
        for (size_t i = 0; i <= classes; i++) {
            least[k][i] = least[k - 1][i];
            begin[k][i] = SIZE_MAX; /* no run of its own */
            for (size_t j = 0; j < i; j++) {
                double waste = least[k - 1][j] + bins_waste(histogram, j, i - 1);

                if (waste < least[k][i]) {
                    least[k][i] = waste;
                    begin[k][i] = j;
                }
            }
        }
    }
    count = 0;
    for (size_t k = runs, i = classes; k > 0 && i > 0; k--) {
        if (begin[k][i] == SIZE_MAX)
            continue;
        sizes[count++] = histogram->size[i - 1];
        i = begin[k][i];
    }
    for (size_t i = 0; i < count / 2; i++) {
        uint64_t size = sizes[i];

        sizes[i] = sizes[count - 1 - i];
        sizes[count - 1 - i] = size;
    }
    free(least);
    free(begin);
    return count;
}

size_t
bins_fit(const struct traffic *traffic, size_t traffic_count, uint64_t most, size_t count, uint64_t sizes[BINS_MOST])
{
    struct bins_histogram *histogram = calloc(1, sizeof(*histogram));
    size_t chosen = 0;

    for (size_t i = 0; histogram != NULL && i < traffic_count; i++)
        bins_count(&traffic[i], most, histogram);
    if (histogram != NULL) {
        bins_pack(histogram);
        chosen = bins_choose(histogram, count < BINS_MOST ? count : BINS_MOST, sizes);
    }
    free(histogram);
    return chosen;
}
