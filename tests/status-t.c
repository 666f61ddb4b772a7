/* Tests status: each value has a name and a text, and its number is the one that traces store. */
#include <tidemark/status.h>

#include "tap.h"

static const struct {
    int number;
    const char *name;
} known[] = {
    { 0, "TIDE_OK" },        { 1, "TIDE_EINVAL" },    { 2, "TIDE_ENOMEM" },       { 3, "TIDE_ECAPACITY" },
    { 4, "TIDE_ELIMIT" },    { 5, "TIDE_EOVERFLOW" }, { 6, "TIDE_EUNSUPPORTED" }, { 7, "TIDE_EDRIVER" },
    { 8, "TIDE_EPOINTER" },  { 9, "TIDE_EMISMATCH" }, { 10, "TIDE_ESYNTAX" },     { 11, "TIDE_EEXIST" },
    { 12, "TIDE_EIO" },      { 13, "TIDE_EFORMAT" },  { 14, "TIDE_EBUSY" },       { 15, "TIDE_EUPSTREAM" },
    { 16, "TIDE_EDAMAGED" }, { 17, "TIDE_ESIGNAL" },
};

#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

int
main(void)
{
    bool texts = true;

    plan((int)KNOWN_COUNT + 4);
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        is_string(tide_status_name((enum tide_status)known[i].number), known[i].name,
                  "a status keeps its number and name");
        for (size_t j = 0; j < i; j++)
            texts = texts && strcmp(tide_status_text((enum tide_status)i), tide_status_text((enum tide_status)j)) != 0;
    }
    ok(texts, "each status has a text of its own");
    is_string(tide_status_text(TIDE_ELIMIT), "a limit refused the request", "the text says what the status means");
    is_string(tide_status_name((enum tide_status)KNOWN_COUNT), "TIDE_UNKNOWN", "the number past the last has no name");
    ok(all_of(strcmp(tide_status_name((enum tide_status) - 1), "TIDE_UNKNOWN") == 0,
              tide_status_text((enum tide_status) - 1) != NULL),
       "a negative number has no name");
    return done();
}
