/* Tests the base `driver` with the real loader: without an NVIDIA driver, every attempt reports that. */
#include "config.h"

#include <dlfcn.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"

#ifdef HAVE_CUDA_H
#define WORDS ": no NVIDIA driver on this machine (libcuda.so.1"
#else
#define WORDS ": this build has no CUDA"
#endif

static void
test_base(const char *name)
{
    struct tide_resource *base = (struct tide_resource *)&tap;
    char words[128];

    snprintf(words, sizeof(words), "%s%s", name, WORDS);
    ok(all_of(tide_stack_parse(name, &base) == TIDE_EUNSUPPORTED, base == NULL), "the base %s is unsupported", name);
    has_words(tide_error_text(), words, "the error names the base");
}

int
main(void)
{
    struct tide_resource *driver = (struct tide_resource *)&tap;

    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL)
        skip_all("this machine has an NVIDIA driver");
    plan(11);
    ok(all_of(tide_driver_create(NULL, &driver) == TIDE_EUNSUPPORTED, driver == NULL),
       "a driver is unsupported without libcuda");
    has_words(tide_error_text(), "driver" WORDS, "the error of a driver says what is missing");
    tide_error_set(TIDE_EINVAL, "another error");
    ok(all_of(tide_driver_create(NULL, &driver) == TIDE_EUNSUPPORTED, driver == NULL),
       "a second driver is unsupported without libcuda");
    has_words(tide_error_text(), "driver" WORDS, "the error of a second driver says what is missing");
    is_i64(tide_error_driver(), 0, "no driver call has failed");
    test_base("cuda");
    test_base("managed");
    test_base("pinned");
    return done();
}
