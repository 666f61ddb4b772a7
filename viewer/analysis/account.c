/* Reads what a process held of each device, at the last moment at which the driver said what is in use. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/analysis/account.h"
#include "viewer/base/exit-status.h"

struct account_read {
    const struct view *view;
    struct account *account;
};

static struct account_device *
account_device(struct account *account, int64_t ordinal)
{
    for (size_t i = 0; i < account->device_count; i++) {
        if (account->devices[i].device == ordinal)
            return &account->devices[i];
    }
    if (!tidei_grow(&account->devices, &account->device_capacity, account->device_count, 1))
        return NULL;
    account->devices[account->device_count] = (struct account_device){ .device = ordinal };
    return &account->devices[account->device_count++];
}

/* Add to the kind of that word and device, or begin it. */
static bool
account_add(struct account *account, const struct trace_layer *layer, uint64_t bytes, int64_t ns)
{
    const char *word = layer_kind_word(layer->known);
    struct account_device *device = layer->device >= 0 ? account_device(account, layer->device) : NULL;
    struct account_kind *kind = NULL;

    if (layer->device >= 0 && device == NULL)
        return false;
    if (device != NULL && layer->known->is_tracked)
        device->tracked_bytes += bytes;
    if (device != NULL && !device->has_use && device->ns < ns)
        device->ns = ns;
    for (size_t i = 0; kind == NULL && i < account->kind_count; i++) {
        if (account->kinds[i].device == layer->device && strcmp(account->kinds[i].word, word) == 0)
            kind = &account->kinds[i];
    }
    if (kind == NULL) {
        if (!tidei_grow(&account->kinds, &account->kind_capacity, account->kind_count, 1))
            return false;
        kind = &account->kinds[account->kind_count++];
        *kind = (struct account_kind){ word, layer->device, 0, layer->known->is_tracked };
    }
    kind->bytes += bytes;
    return true;
}

static int
account_sample(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const struct account_read *read = context;
    const struct trace_layer *layer = trace_layers_find(&read->view->layers, sqlite3_column_int64(row, 0));
    int64_t bytes = sqlite3_column_int64(row, 1);

    if (layer == NULL || !trace_layer_is_base(layer) || bytes < 0)
        return COMMAND_FINE;
    return account_add(read->account, layer, (uint64_t)bytes, sqlite3_column_int64(row, 3))
               ? COMMAND_FINE
               : trace_broken(trace, "no memory for its kinds");
}

static int
account_use(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const struct account_read *read = context;
    struct account_device *device = account_device(read->account, sqlite3_column_int64(row, 0));
    int64_t free_bytes = sqlite3_column_int64(row, 1), total_bytes = sqlite3_column_int64(row, 2);

    if (device == NULL)
        return trace_broken(trace, "no memory for its devices");
    *device = (struct account_device){ .device = device->device,
                                       .has_use = true,
                                       .total_bytes = (uint64_t)total_bytes,
                                       .used_bytes = (uint64_t)(total_bytes - free_bytes),
                                       .ns = sqlite3_column_int64(row, 4) };
    return COMMAND_FINE;
}

/* The layer `process` of graphs has it, which is made with the first allocation of its device. */
static int
account_found(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const struct account_read *read = context;
    const struct trace_layer *layer = trace_layers_find(&read->view->layers, sqlite3_column_int64(row, 0));
    struct account_device *device;

    if (layer == NULL || !layer->known->is_process || layer->device < 0 || sqlite3_column_int64(row, 1) <= 0)
        return COMMAND_FINE;
    device = account_device(read->account, layer->device);
    if (device == NULL)
        return trace_broken(trace, "no memory for its devices");
    device->has_found = true;
    device->found_bytes = (uint64_t)sqlite3_column_int64(row, 1);
    return COMMAND_FINE;
}

/*
 * The last figures of each device until then, and those of the layers at that moment: what is tracked and what is in
 * use change together. Layers on no device, and on devices that were never asked, have their own last figures.
 *
 * Of the rows of a group, SQLite takes the other columns from the one with the max.
 */
static int
account_read_figures(struct account_read *read, long long until)
{
    const struct trace *trace = &read->view->trace;
    const bool has_uses = trace_has(trace, "device_sample", "device");
    int status = COMMAND_FINE;

#define ACCOUNT_USES                                                                                                   \
    "SELECT device, free_bytes, total_bytes, max(rowid), ns FROM device_sample WHERE ns <= %lld AND free_bytes >= 0 "  \
    "AND total_bytes >= free_bytes GROUP BY device"
    if (has_uses)
        status = trace_each(trace, account_use, read, ACCOUNT_USES " ORDER BY device", until);
    if (status == COMMAND_FINE && has_uses)
        status = trace_each(trace, account_sample, read,
                            "SELECT layer_id, reserved_bytes, max(pool_sample.rowid), pool_sample.ns FROM pool_sample "
                            "JOIN layer USING (layer_id) LEFT JOIN (" ACCOUNT_USES ") AS used USING (device) "
                            "WHERE pool_sample.ns <= coalesce(used.ns, %lld) GROUP BY layer_id ORDER BY layer_id",
                            until, until);
    else if (status == COMMAND_FINE)
        status = trace_each(trace, account_sample, read,
                            "SELECT layer_id, reserved_bytes, max(rowid), ns FROM pool_sample WHERE ns <= %lld "
                            "GROUP BY layer_id ORDER BY layer_id",
                            until);
    return status;
}

int
account_read(const struct view *view, int64_t end_ns, struct account *out)
{
    struct account_read read = { view, out };
    const struct trace *trace = &view->trace;
    long long until = (long long)view->filter.to_ns;
    int status;

    *out = (struct account){ .end_ns = end_ns < until ? end_ns : until };
    for (size_t i = 0; i < view->layers.count; i++)
        out->is_process |= view->layers.layers[i].known->is_process;
    if (!out->is_process)
        return COMMAND_FINE;
    status = account_read_figures(&read, until);
    if (status == COMMAND_FINE && trace_has(trace, "layer_count", "value"))
        status = trace_each(trace, account_found, &read,
                            "SELECT layer_id, value FROM layer_count WHERE name = 'found_bytes' ORDER BY layer_id");
    if (status != COMMAND_FINE)
        account_free(out);
    return status;
}

int
account_none(struct account *out)
{
    *out = (struct account){ 0 };
    return COMMAND_FINE;
}

void
account_free(struct account *account)
{
    free(account->kinds);
    free(account->devices);
    *account = (struct account){ 0 };
}

int64_t
account_unaccounted(const struct account_device *device)
{
    return (int64_t)(device->used_bytes - device->tracked_bytes);
}

uint64_t
account_before(const struct account_device *device)
{
    int64_t unaccounted = account_unaccounted(device);

    if (unaccounted <= 0)
        return 0;
    return device->found_bytes < (uint64_t)unaccounted ? device->found_bytes : (uint64_t)unaccounted;
}
