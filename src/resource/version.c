/* The version of the library that runs. */
#include <config.h>

#include <tidemark/tidemark.h>

const char *
tide_version(void)
{
    return PACKAGE_VERSION;
}
