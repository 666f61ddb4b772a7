/* Tests version: the number in the headers, the number in the library and the text agree. */
#include <tidemark/tidemark.h>

#include "tap.h"

int
main(void)
{
    char words[32];

    plan(2);
    snprintf(words, sizeof(words), "%d.%d.%d", TIDE_VERSION_NUMBER >> 16, TIDE_VERSION_NUMBER >> 8 & 0xff,
             TIDE_VERSION_NUMBER & 0xff);
    is_string(tide_version(), words, "TIDE_VERSION_NUMBER is the version that configure.ac gives the package");
    is_u64(tide_version_number(), TIDE_VERSION_NUMBER, "the library's version number is that of these headers");
    return done();
}
