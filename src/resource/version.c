/* The version of the library that runs. */
#include <config.h>

#include <tidemark/version.h>

uint32_t
tide_version_number(void)
{
    return TIDE_VERSION_NUMBER;
}

const char *
tide_version(void)
{
    return PACKAGE_VERSION;
}
