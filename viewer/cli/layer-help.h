/* Explains a layer of stack text on a terminal. */
#ifndef VIEWER_CLI_LAYER_HELP_H
#define VIEWER_CLI_LAYER_HELP_H

#include <stdbool.h>
#include <stdio.h>

/* Whether there is a layer of this name. */
bool layer_help_has(const char *name);

/* Print what the documentation of stack text says of the layer. */
void layer_help_print(const char *name, FILE *out);

/* The name of layer `index` in the order of the documentation; NULL behind the last. */
const char *layer_help_name(size_t index);

#endif
