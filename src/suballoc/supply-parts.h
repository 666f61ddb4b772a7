/* What the files of a supply share. */
#ifndef TIDEI_SUPPLY_PARTS_H
#define TIDEI_SUPPLY_PARTS_H

#include <string.h>

#include "suballoc/supply.h"

enum tide_status tidei_supply_no_memory(const struct tidei_supply *supply);

/* With the lock, which they may give and take again meanwhile. */
enum tide_status tidei_supply_wait(struct tidei_supply *supply, struct tidei_piece *piece, uint32_t later);

/* A piece for the request, MOVING; NULL where none fits, or where the stream could not be made to wait for it. */
struct tidei_piece *tidei_supply_take(struct tidei_supply *supply, const struct tidei_heap_request *request);

/* Have the request's stream wait for a piece that the heap has given for it; NULL where that fails, and it is back. */
struct tidei_piece *tidei_supply_take_over(struct tidei_supply *supply, struct tidei_piece *piece,
                                           const struct tidei_heap_request *request);

/* The same where nothing fits so far. The caller holds the request's stream. */
enum tide_status tidei_supply_grow(struct tidei_supply *supply, const struct tidei_heap_request *request,
                                   struct tidei_piece **out);

/* The same where upstream is not to be asked. TIDE_ECAPACITY where nothing fits. */
enum tide_status tidei_supply_press_free(struct tidei_supply *supply, const struct tidei_heap_request *request,
                                         struct tidei_piece **out);

#endif
