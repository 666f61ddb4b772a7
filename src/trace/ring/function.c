/* The functions of CUDA whose calls a trace keeps. */
#include "config.h"

#include <stddef.h>

#include "src/trace/ring/function.h"

struct function {
    const char *name;
    bool is_free;
};

#define FUNCTION(number, function, frees) [number] = { #function, frees },

static const struct function functions[TIDEI_FUNCTION_MOST] = { TIDEI_FUNCTIONS(FUNCTION, FUNCTION) };

const char *
tidei_function_name(unsigned number)
{
    return number < TIDEI_FUNCTION_MOST ? functions[number].name : NULL;
}

bool
tidei_function_is_free(unsigned number)
{
    return number < TIDEI_FUNCTION_MOST && functions[number].is_free;
}
