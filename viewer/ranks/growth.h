/* Which ranks of a job grow more than the median from step to step. */
#ifndef VIEWER_RANKS_GROWTH_H
#define VIEWER_RANKS_GROWTH_H

#include "viewer/ranks/ranks.h"

/* Fill the list of those that do, and count those of which it is not known. COMMAND_FINE, or another status. */
int growth_read(struct ranks *ranks);

#endif
