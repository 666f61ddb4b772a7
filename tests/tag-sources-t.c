/* Tests tags of several sources (tide_tag_push_from): whose pop ends which, and how many names there may be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "src/context/tag.h"
#include "tap.h"

static const char *
now(void)
{
    static char text[4096];
    char *path = tidei_tag_path(tidei_tag_now());

    snprintf(text, sizeof(text), "%s", path);
    free(path);
    return text;
}

#define SOURCE_TESTS 6

static void
check_sources(void)
{
    tide_tag_push_from(1, "a");
    tide_tag_push("own");
    tide_tag_push_from(2, "b");
    is_string(now(), "a/own/b", "tags of all sources nest as they begin");
    tide_tag_pop_from(1);
    is_string(now(), "own/b", "the end of an outer tag of one source leaves those of others");
    tide_tag_pop_from(1);
    is_string(now(), "own/b", "a pop too many of one source ends nobody else's tag");
    tide_tag_pop();
    is_string(now(), "b", "the program's pop ends the program's tag");
    tide_tag_pop();
    is_string(now(), "b", "a pop too many of the program ends nobody else's tag");
    tide_tag_pop_from(2);
    is_string(now(), "", "when all have ended there is none");
}

/* Random pushes and pops of three sources, beside a list from which the innermost of a source is taken out. */

#define DEPTH 5

struct model {
    uint32_t sources[DEPTH];
    char names[DEPTH];
    size_t depth;
};

static bool
model_agrees(const struct model *model)
{
    char path[2 * DEPTH + 1] = "";

    for (size_t i = 0; i < model->depth; i++) {
        path[2 * i] = model->names[i];
        path[2 * i + 1] = i + 1 < model->depth ? '/' : '\0';
    }
    if (strcmp(now(), path) != 0)
        diag("seen \"%s\", wanted \"%s\"", now(), path);
    return strcmp(now(), path) == 0;
}

static void
model_step(struct model *model, uint64_t *seed)
{
    uint32_t source = contract_random(seed) % 3;
    char name[2] = { (char)('a' + contract_random(seed) % 3), '\0' };

    if (model->depth < DEPTH && contract_random(seed) % 2 == 0) {
        tide_tag_push_from(source, name);
        model->sources[model->depth] = source;
        model->names[model->depth++] = name[0];
        return;
    }
    tide_tag_pop_from(source);
    for (size_t i = model->depth; i-- > 0;) {
        if (model->sources[i] != source)
            continue;
        memmove(&model->sources[i], &model->sources[i + 1], (model->depth - i - 1) * sizeof(model->sources[0]));
        memmove(&model->names[i], &model->names[i + 1], model->depth - i - 1);
        model->depth--;
        return;
    }
}

static bool
model_run(uint64_t seed)
{
    struct model model = { .depth = 0 };
    bool agrees = true;

    for (int i = 0; i < 20000 && agrees; i++) {
        model_step(&model, &seed);
        agrees = model_agrees(&model);
    }
    for (uint32_t source = 0; source < 3; source++) {
        for (int i = 0; i < DEPTH; i++)
            tide_tag_pop_from(source);
    }
    return agrees;
}

#define BOUND_TESTS 7

static void
check_bound(void)
{
    enum tide_status status = TIDE_OK;
    uint32_t first = 0, last = 0;
    char name[32];

    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "step %d of 10000", i);
        status = tide_tag_push_from(1, name);
        last = tidei_tag_now();
        first = first == 0 ? last : first;
        if (status == TIDE_OK && i < 9999)
            tide_tag_pop_from(1);
    }
    ok(all_of(status == TIDE_OK, last - first <= 2048), "ten thousand names of a source make some two thousand tags");
    tide_tag_push_from(1, "forward");
    is_string(now(), "step # of #/forward", "names beyond lose their numbers");
    tide_tag_pop_from(1);
    tide_tag_pop_from(1);
    tide_tag_push_from(1, "step 3 of 10000");
    is_string(now(), "step 3 of 10000", "names that are known stay");
    tide_tag_pop_from(1);
    for (int i = 0; i < 10000; i++) {
        for (int n = i, at = 0; at < 5; n /= 10, at++) {
            name[at] = (char)('a' + n % 10);
            name[at + 1] = '\0';
        }
        tide_tag_push_from(1, name);
        if (i < 9999)
            tide_tag_pop_from(1);
    }
    is_string(now(), "(other)", "where there are too many without numbers the rest is one tag for all");
    tide_tag_pop_from(1);
    for (int i = 0; i < 1000; i++)
        status = tide_tag_push_from(1, "deeper");
    ok(all_of(status == TIDE_ECAPACITY, tidei_tag_now() - first <= 2048 + 512), "nor does a path grow without end");
    for (int i = 0; i < 1000; i++)
        tide_tag_pop_from(1);
    is_string(now(), "", "the tags that did not begin need no end");
    tide_tag_push("of the program");
    is_string(now(), "of the program", "the program's own tags have no such bound");
    tide_tag_pop();
}

int
main(void)
{
    plan(SOURCE_TESTS + 1 + BOUND_TESTS);
    check_sources();
    ok(model_run(contract_seed(16)), "random tags of three sources nest and end as in a list");
    check_bound();
    return done();
}
