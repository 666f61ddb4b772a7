/* Another auditor: it has a file made, as a sign that it is there. */
#include "config.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>

__attribute__((visibility("default"))) unsigned
la_version(unsigned version)
{
    const char *path = getenv("RUN_AUDITOR");

    if (path != NULL)
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}
