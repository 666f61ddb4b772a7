/*
 * A program that uses NVTX and is not linked with libtidemark: pushes a range, and prints whether libtidemark was
 * loaded before and after, and what the push returned. With a number as argument it first pushes so many ranges of
 * different names.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/nvtx-user.h"

int
main(int count, char **arguments)
{
    void *library = dlopen(NVTX_USER_A, RTLD_NOW);
    const struct nvtx_user *(*get)(void);
    int before, depth;

    (void)arguments;
    if (library == NULL)
        return 99;
    *(void **)&get = dlsym(library, "nvtx_user");
    before = dlopen("libtidemark.so.0", RTLD_NOW | RTLD_NOLOAD) != NULL;
    depth = get()->push("outer");
    if (count > 1)
        depth = get()->push("inner");
    printf("before=%d after=%d depth=%d\n", before, dlopen("libtidemark.so.0", RTLD_NOW | RTLD_NOLOAD) != NULL, depth);
    return 7;
}
