/*
 * Imports PyTorch's memory snapshot, as JSON or as the pickle that PyTorch writes. Each device is a stack of its own,
 * with a layer of what the program asked for above PyTorch's caching allocator, and one of the segments that it took
 * from the driver below:
 *
 *     log | pytorch | log | cuda
 *
 * An allocation ends when its free is requested. The stack of each allocation becomes its tag, the outermost frame
 * first. The history of a snapshot is bounded: what was there before it began is found by a first reading, from frees
 * of what was never allocated and from the blocks and segments that the snapshot has besides, and lives from the
 * beginning.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/import/import.h"
#include "viewer/base/progress.h"
#include "viewer/import/pytorch-json.h"
#include "viewer/base/range-set.h"

/* More GPUs than a host has. */
#define TORCH_DEVICES_MAX 64

/* The caching allocator's own granularity. */
#define TORCH_ALIGNMENT 512

/* A block or a segment that was there before the history began, or at its end. */
struct torch_before {
    int64_t device;
    bool is_segment;
    uint64_t address;
    uint64_t size;
    uint64_t stream;
    int64_t tag_id;
};

struct torch_list {
    struct torch_before *items; /* owns */
    size_t count;
    size_t capacity;
};

struct torch_device {
    bool known;
    uint64_t events;
    unsigned layer;            /* of the import: what the program asked for; the one after it has the segments */
    struct id_map live;        /* owns; of the first reading: addresses */
    struct id_map freed;       /* owns; of the first reading: frees that are requested */
    struct range_set segments; /* owns; what is mapped */
    struct pytorch_reader reader;
    struct pytorch_item next; /* of the second reading */
    bool open;
    int64_t time_us;
};

struct torch {
    struct import *import;
    const char *path;
    const struct pickle *pickle;  /* its values; NULL where it is JSON */
    struct torch_device *devices; /* owns; TORCH_DEVICES_MAX */
    struct torch_list before;
    struct torch_list at_end; /* blocks and segments of the snapshot */
    struct id_map tags;       /* owns; by a hash of the tag around it and the name */
    bool has_time;
    int64_t first_us;
};

static struct torch_before
torch_before(const struct pytorch_item *item, bool is_segment)
{
    return (struct torch_before){ .device = item->device,
                                  .is_segment = is_segment,
                                  .address = item->address,
                                  .size = item->size,
                                  .stream = item->stream };
}

static int
torch_no_memory(const struct torch *torch)
{
    message("%s: no memory for what is live", torch->path);
    return COMMAND_WRONG;
}

static int
torch_list_add(const struct torch *torch, struct torch_list *list, const struct torch_before *item)
{
    if (!tidei_grow(&list->items, &list->capacity, list->count, 1))
        return torch_no_memory(torch);
    list->items[list->count++] = *item;
    return COMMAND_FINE;
}

/* The tag of a stack: nested tags, one for each frame. -1: a message was printed. */
static int64_t
torch_tag(struct torch *torch, const struct pytorch_item *item)
{
    int64_t tag_id = 0;

    for (size_t i = item->frame_count; i-- > 0;) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)tag_id;
        const uint32_t *known;

        for (const char *letter = item->frames[i]; *letter != '\0'; letter++)
            hash = (hash ^ (unsigned char)*letter) * UINT64_C(0x100000001b3);
        hash = (hash ^ (uint64_t)tag_id) * UINT64_C(0x9e3779b97f4a7c15);
        known = id_map_find(&torch->tags, hash);
        if (known != NULL) {
            tag_id = *known;
            continue;
        }
        tag_id = import_tag(torch->import, tag_id, item->frames[i]);
        if (tag_id <= 0 || tag_id > UINT32_MAX)
            return -1;
        if (!id_map_add(&torch->tags, hash, (uint32_t)tag_id)) {
            torch_no_memory(torch);
            return -1;
        }
    }
    return tag_id;
}

/* NULL where the number is no device's. */
static struct torch_device *
torch_device(struct torch *torch, int64_t device)
{
    if (device < 0 || device >= TORCH_DEVICES_MAX)
        return NULL;
    torch->devices[device].known = true;
    return &torch->devices[device];
}

static struct range
torch_range(uint64_t address, uint64_t size)
{
    return (struct range){ address, size <= UINT64_MAX - address ? address + size : UINT64_MAX };
}

/* The parts of a segment that are not mapped were there before: add them to that list. */
static int
torch_add_gaps(struct torch *torch, const struct torch_before *item, const struct range_set *segments)
{
    struct range left = torch_range(item->address, item->size);
    struct torch_before gap = *item;
    int status = COMMAND_FINE;

    while (status == COMMAND_FINE && left.begin < left.end) {
        const struct range *mapped = range_set_first(segments, left);
        uint64_t end = mapped != NULL ? mapped->begin : left.end;

        if (end > left.begin) {
            gap.address = left.begin;
            gap.size = end - left.begin;
            status = torch_list_add(torch, &torch->before, &gap);
        }
        left.begin = mapped != NULL ? mapped->end : left.end;
    }
    return status;
}

/* The rest of a mapping on either side of a range that is unmapped; returns how many there are. */
static size_t
torch_rest(struct range mapped, struct range cut, struct range rest[2])
{
    size_t count = 0;

    if (mapped.begin < cut.begin)
        rest[count++] = (struct range){ mapped.begin, cut.begin };
    if (mapped.end > cut.end)
        rest[count++] = (struct range){ cut.end, mapped.end };
    return count;
}

/* Unmap a range. False: no memory. */
static bool
torch_cut(struct range_set *segments, struct range cut)
{
    const struct range *found;
    bool added = true;

    while (added && (found = range_set_first(segments, cut)) != NULL) {
        struct range mapped = *found;
        struct range rest[2];
        size_t count = torch_rest(mapped, cut, rest);

        range_set_remove(segments, mapped);
        for (size_t i = 0; added && i < count; i++)
            added = range_set_add(segments, rest[i]);
    }
    return added;
}

/*
 * The first reading: a segment is mapped (`stays`) or unmapped. Parts that are mapped already are unmapped first, so
 * that a file in which segments overlap takes no longer. If the segment `was_there`, the other parts were mapped before
 * the history began.
 */
static int
torch_survey_segment(struct torch *torch, const struct torch_before *segment, bool was_there, bool stays)
{
    struct range_set *segments = &torch->devices[segment->device].segments;
    struct range range = torch_range(segment->address, segment->size);
    int status = was_there ? torch_add_gaps(torch, segment, segments) : COMMAND_FINE;

    if (status != COMMAND_FINE || range.begin == range.end)
        return status;
    if (!torch_cut(segments, range) || (stays && !range_set_add(segments, range)))
        return torch_no_memory(torch);
    return COMMAND_FINE;
}

/* The first reading: an event of what the program asked for. */
static int
torch_survey_alloc(struct torch *torch, struct torch_device *device, const struct pytorch_item *item)
{
    struct torch_before before = torch_before(item, false);
    bool was_live, was_freed;
    uint32_t ignored;

    if (item->action == PYTORCH_ALLOC) {
        id_map_take(&device->freed, item->address, &ignored);
        if (id_map_find(&device->live, item->address) != NULL || id_map_add(&device->live, item->address, 1))
            return COMMAND_FINE;
        return torch_no_memory(torch);
    }
    was_live = id_map_take(&device->live, item->address, &ignored);
    was_freed = id_map_take(&device->freed, item->address, &ignored);
    if (item->action == PYTORCH_FREE_COMPLETED)
        return COMMAND_FINE;
    if (!id_map_add(&device->freed, item->address, 1))
        return torch_no_memory(torch);
    /* The second of two requests to free an address is an unmatched free. */
    return was_live || was_freed ? COMMAND_FINE : torch_list_add(torch, &torch->before, &before);
}

static int
torch_survey_event(struct torch *torch, struct torch_device *device, const struct pytorch_item *item)
{
    struct torch_before segment;

    device->events++;
    if (item->has_time && (!torch->has_time || item->time_us < torch->first_us)) {
        torch->has_time = true;
        torch->first_us = item->time_us;
    }
    if (item->action <= PYTORCH_FREE_COMPLETED)
        return torch_survey_alloc(torch, device, item);
    if (item->action > PYTORCH_SEGMENT_FREE)
        return COMMAND_FINE;
    segment = torch_before(item, true);
    return torch_survey_segment(torch, &segment, item->action == PYTORCH_SEGMENT_FREE,
                                item->action == PYTORCH_SEGMENT_ALLOC);
}

static int
torch_survey_item(struct torch *torch, const struct pytorch_item *item)
{
    struct torch_device *device = torch_device(torch, item->device);
    struct torch_before at_end = torch_before(item, item->kind == PYTORCH_SEGMENT);

    if (device == NULL) {
        torch->import->unreadable++;
        return COMMAND_FINE;
    }
    if (item->kind == PYTORCH_EVENT)
        return torch_survey_event(torch, device, item);
    if (item->kind == PYTORCH_BLOCK && !item->active)
        return COMMAND_FINE;
    at_end.tag_id = torch_tag(torch, item);
    return at_end.tag_id >= 0 ? torch_list_add(torch, &torch->at_end, &at_end) : COMMAND_WRONG;
}

/* Blocks and segments that the snapshot has and the history does not were there before. */
static int
torch_compare(struct torch *torch)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; status == COMMAND_FINE && i < torch->at_end.count; i++) {
        const struct torch_before *item = &torch->at_end.items[i];
        const struct torch_device *device = &torch->devices[item->device];

        if (item->is_segment)
            status = torch_survey_segment(torch, item, true, true);
        else if (id_map_find(&device->live, item->address) == NULL)
            status = torch_list_add(torch, &torch->before, item);
    }
    return status;
}

/* The first reading. */
static int
torch_survey(struct torch *torch)
{
    struct pytorch_reader reader;
    struct pytorch_item item = { 0 };
    uint64_t items = 0;
    int status = pytorch_open(&reader, torch->path, torch->pickle, -1);

    for (; status == COMMAND_FINE; items++) {
        pytorch_next(&reader, &item);
        if (item.kind == PYTORCH_END || item.kind == PYTORCH_FAILED)
            break;
        status = torch_survey_item(torch, &item);
    }
    if (status == COMMAND_FINE && item.kind == PYTORCH_FAILED) {
        message("%s", reader.json.message);
        torch->import->cut_off = 1;
        status = items > 0 ? COMMAND_FINE : COMMAND_WRONG;
    } else if (status == COMMAND_FINE && items == 0) {
        message("%s: no memory snapshot of PyTorch: it has neither segments nor device_traces", torch->path);
        status = COMMAND_WRONG;
    }
    pytorch_close(&reader);
    return status == COMMAND_FINE ? torch_compare(torch) : status;
}

/* An allocation on one of the layers, at the time that is set. */
static int
torch_alloc(struct torch *torch, const struct torch_before *item)
{
    struct torch_device *device = &torch->devices[item->device];
    struct range range = torch_range(item->address, item->size);
    struct import_event event = {
        .layer = device->layer + (item->is_segment ? 1 : 0),
        .address = item->address,
        .size = item->size,
        .stream = item->stream,
        .tag_id = item->tag_id,
    };

    /* A file may unmap a segment twice: then it was there before the history twice, too. */
    if (item->is_segment && range.begin < range.end &&
        !(torch_cut(&device->segments, range) && range_set_add(&device->segments, range)))
        return torch_no_memory(torch);
    return import_alloc(torch->import, &event);
}

/* Unmap a range at a time: each mapping in it ends, and the rest of it on either side is a new mapping. */
static int
torch_unmap(struct torch *torch, const struct pytorch_item *item, int64_t ns)
{
    struct torch_device *device = &torch->devices[item->device];
    struct range cut = torch_range(item->address, item->size);
    const struct range *found;
    int status = COMMAND_FINE;

    while (status == COMMAND_FINE && (found = range_set_first(&device->segments, cut)) != NULL) {
        struct range mapped = *found;
        struct range rest[2];
        size_t count = torch_rest(mapped, cut, rest);
        struct import_event event = { .layer = device->layer + 1,
                                      .address = mapped.begin,
                                      .stream = item->stream,
                                      .size = mapped.end - mapped.begin };

        range_set_remove(&device->segments, mapped);
        import_time(torch->import, true, ns);
        status = import_free(torch->import, &event);
        for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
            struct torch_before left = torch_before(item, true);

            left.address = rest[i].begin;
            left.size = rest[i].end - rest[i].begin;
            import_time(torch->import, true, ns);
            status = torch_alloc(torch, &left);
        }
    }
    return status;
}

static int
torch_mark(struct torch *torch, const struct pytorch_item *item)
{
    char text[96];

    if (item->action == PYTORCH_SNAPSHOT)
        snprintf(text, sizeof(text), "snapshot");
    else
        snprintf(text, sizeof(text), "device %" PRId64 " is out of memory: %" PRIu64 " bytes are free", item->device,
                 item->device_free);
    return import_row(torch->import, mark, TIDEI_NUMBER(torch->import->last_ns), TIDEI_NULL, TIDEI_TEXT("mark"),
                      TIDEI_TEXT(text));
}

/* An event of the program's own requests, or of the device as a whole; the time is set. */
static int
torch_request(struct torch *torch, const struct pytorch_item *item)
{
    unsigned layer = torch->devices[item->device].layer;
    struct import_event event = {
        .layer = layer, .address = item->address, .size = item->size, .stream = item->stream
    };
    bool live = import_is_live(torch->import, layer, item->address);
    int status;

    switch (item->action) {
    case PYTORCH_ALLOC:
    case PYTORCH_OOM:
        event.tag_id = torch_tag(torch, item);
        if (event.tag_id < 0)
            return COMMAND_WRONG;
        if (item->action == PYTORCH_ALLOC)
            return import_alloc(torch->import, &event);
        event.address = 0;
        status = import_failure(torch->import, &event);
        return status == COMMAND_FINE ? torch_mark(torch, item) : status;
    case PYTORCH_FREE_REQUESTED:
    case PYTORCH_FREE_COMPLETED:
        /* Sizes of frees are as requested in some versions and rounded in others. */
        event.size = live ? IMPORT_SIZE_UNKNOWN : item->size;
        return live || item->action == PYTORCH_FREE_REQUESTED ? import_free(torch->import, &event) : COMMAND_FINE;
    case PYTORCH_SNAPSHOT:
        return torch_mark(torch, item);
    default:
        return COMMAND_FINE;
    }
}

static int
torch_event(struct torch *torch, const struct pytorch_item *item)
{
    int64_t since_us = item->has_time ? item->time_us - torch->first_us : 0;
    int64_t ns = since_us < INT64_MAX / 1000 ? since_us * 1000 : INT64_MAX;
    int status;

    if (item->action == PYTORCH_BROKEN || (item->action <= PYTORCH_SEGMENT_FREE && item->size > INT64_MAX)) {
        torch->import->unreadable++;
        return COMMAND_FINE;
    }
    if (item->action == PYTORCH_OTHER)
        return COMMAND_FINE;
    if (item->action == PYTORCH_SEGMENT_FREE || item->action == PYTORCH_SEGMENT_ALLOC) {
        struct torch_before segment = torch_before(item, true);

        /* A segment may be mapped again without having been unmapped. */
        status = torch_unmap(torch, item, item->has_time ? ns : torch->import->latest_ns);
        if (status != COMMAND_FINE || item->action == PYTORCH_SEGMENT_FREE)
            return status;
        segment.tag_id = torch_tag(torch, item);
        import_time(torch->import, item->has_time, ns);
        return segment.tag_id >= 0 ? torch_alloc(torch, &segment) : COMMAND_WRONG;
    }
    import_time(torch->import, item->has_time, ns);
    return torch_request(torch, item);
}

/* The device whose next event is the earliest; NULL: all is read. */
static struct torch_device *
torch_earliest(struct torch *torch)
{
    struct torch_device *earliest = NULL;

    for (int i = 0; i < TORCH_DEVICES_MAX; i++) {
        struct torch_device *device = &torch->devices[i];

        if (device->open && (earliest == NULL || device->time_us < earliest->time_us))
            earliest = device;
    }
    return earliest;
}

/* Read the next event of a device; one without a time has that of the event before. */
static void
torch_advance(struct torch_device *device)
{
    pytorch_next(&device->reader, &device->next);
    if (device->next.kind != PYTORCH_EVENT) {
        device->open = false;
        pytorch_close(&device->reader);
    } else if (device->next.has_time) {
        device->time_us = device->next.time_us;
    }
}

/* Add what was there before, then the histories of all devices, merged in the order of time. */
static int
torch_replay(struct torch *torch)
{
    struct torch_device *device;
    struct progress progress;
    uint64_t total = 0;
    uint64_t done = 0;
    int status = COMMAND_FINE;

    for (size_t i = 0; status == COMMAND_FINE && i < torch->before.count; i++) {
        import_time(torch->import, true, 0);
        status = torch_alloc(torch, &torch->before.items[i]);
    }
    for (int i = 0; status == COMMAND_FINE && i < TORCH_DEVICES_MAX; i++) {
        device = &torch->devices[i];
        total += device->events;
        if (device->events == 0)
            continue;
        device->open = true;
        status = pytorch_open(&device->reader, torch->path, torch->pickle, i);
        if (status == COMMAND_FINE)
            torch_advance(device);
    }
    progress_begin(&progress, "importing");
    while (status == COMMAND_FINE && (device = torch_earliest(torch)) != NULL) {
        status = torch_event(torch, &device->next);
        torch_advance(device);
        if (++done % 1024 == 0)
            progress_update(&progress, done, total);
    }
    progress_end(&progress);
    return status;
}

static int
torch_import(struct torch *torch)
{
    int status = torch_survey(torch);

    for (int i = 0; status == COMMAND_FINE && i < TORCH_DEVICES_MAX; i++) {
        struct torch_device *device = &torch->devices[i];

        range_set_clear(&device->segments);
        if (device->known)
            status = import_layers(torch->import, "log pytorch log cuda", "", i, TORCH_ALIGNMENT, &device->layer);
    }
    return status == COMMAND_FINE ? torch_replay(torch) : status;
}

static void
torch_free(struct torch *torch)
{
    for (int i = 0; torch->devices != NULL && i < TORCH_DEVICES_MAX; i++) {
        struct torch_device *device = &torch->devices[i];

        id_map_free(&device->live);
        id_map_free(&device->freed);
        range_set_clear(&device->segments);
        if (device->open)
            pytorch_close(&device->reader);
    }
    free(torch->devices);
    free(torch->before.items);
    free(torch->at_end.items);
    id_map_free(&torch->tags);
}

static int
torch_run(struct import *import, const char *path, uint64_t *start_unix_ns)
{
    struct torch torch = { .import = import, .path = path };
    struct pickle pickle = { 0 };
    int status = COMMAND_FINE;

    if (pickle_recognise(path)) {
        torch.pickle = &pickle;
        status = pickle_read(&pickle, path);
    }
    torch.devices = calloc(TORCH_DEVICES_MAX, sizeof(*torch.devices));
    if (torch.devices == NULL)
        status = torch_no_memory(&torch);
    else if (status == COMMAND_FINE)
        status = torch_import(&torch);
    torch_free(&torch);
    pickle_free(&pickle);
    if (torch.has_time && torch.first_us < INT64_MAX / 1000)
        *start_unix_ns = (uint64_t)torch.first_us * 1000;
    return status;
}

/* JSON, by its first byte that is no blank; the file may be compressed. */
static bool
torch_recognise(const char *path)
{
    gzFile file = gzopen(path, "r");
    int byte;

    if (file == NULL)
        return false;
    if (pickle_recognise(path)) {
        gzclose(file);
        return true;
    }
    do
        byte = gzgetc(file);
    while (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n');
    gzclose(file);
    return byte == '{' || byte == '[';
}

const struct import_format import_pytorch = {
    .name = "pytorch",
    .purpose = "torch.cuda.memory._snapshot() as JSON",
    .recognise = torch_recognise,
    .run = torch_run,
};
