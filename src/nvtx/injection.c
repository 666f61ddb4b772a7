/*
 * libtidemark-nvtx: makes the ranges of NVTX tags, and its marks marks. NVTX loads it by NVTX_INJECTION64_PATH, once
 * for each shared object that uses NVTX, and each has a table of functions of its own to be filled.
 *
 * The library does next to nothing by itself. At the first range or mark it opens libtidemark: the file that
 * TIDEMARK_RUN_LIBRARY names, else the copy that the program has loaded. Where there is neither, ranges are nothing.
 *
 *  - Ranges of the default domain become tags, whichever way they came: nvtxRangePush*, or nvtxDomainRangePushEx with
 *    NULL. TIDEMARK_RUN_NVTX_DOMAINS names other domains whose ranges do, separated by commas; "*" is all of them. Each
 *    domain is a source of tags (tide_tag_push_from): its pops end its own ranges and nobody else's.
 *  - Names are cleaned (names.h). libtidemark bounds the number of different ones.
 *  - Ranges that begin and end anywhere (nvtxRangeStart) belong to no thread, and are nothing.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tag.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include "src/nvtx/names.h"

#define DOMAINS_MOST 16 /* whose ranges become tags; the first is the default domain */
#define DEPTH_MOST   64 /* deeper ranges are counted only: a program that forgets to pop makes no endless path */
#define WIDE_BYTES   1024
#define NOT_A_TAG    NVTX_NO_PUSH_POP_TRACKING

/* A text that was registered, or the name of a domain; each is kept once, for the life of the process. */
struct text {
    int domain; /* of a domain: its number; -1: its ranges are no tags */
    char text[];
};

/* What a thread has open of a domain. */
struct open_ranges {
    int depth;
    int muted; /* the depth of the first range that is no tag, as what lies within it; 0: all are */
};

struct tide_functions {
    enum tide_status (*push)(uint32_t source, const char *name);
    void (*pop)(uint32_t source);
    enum tide_status (*mark)(const char *text);
};

static _Atomic(struct tide_functions *) tide_found; /* NULL: there is no libtidemark yet */
static atomic_bool tide_failed;                     /* the one that was named cannot be opened */
static atomic_uint tide_looks;                      /* for one that the program may load itself */

/* Looks for a library that the program has not loaded by then: one of so many calls. */
#define TIDE_LOOKS_EACH 64

static _Thread_local struct open_ranges open_ranges[DOMAINS_MOST];

static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static void *strings, *domains;                                /* binary trees of search.h */
static int domain_count = 1;

static void
texts_acquire(void)
{
    pthread_mutex_lock(&texts_lock);
}

static void
texts_release(void)
{
    pthread_mutex_unlock(&texts_lock);
}

/* The library's functions; false: it has them not. */
static bool
tide_take(void *library, struct tide_functions *out)
{
    *(void **)&out->push = dlsym(library, "tide_tag_push_from");
    *(void **)&out->pop = dlsym(library, "tide_tag_pop_from");
    *(void **)&out->mark = dlsym(library, "tide_mark");
    return out->push != NULL && out->pop != NULL && out->mark != NULL;
}

/*
 * Open the library, and publish its functions. Without a lock: dlopen() takes the linker's, which a thread that is in a
 * constructor has already. So threads that come at once do the same, and one of them publishes.
 */
static const struct tide_functions *
tide_open(void)
{
    const char *path = secure_getenv("TIDEMARK_RUN_LIBRARY");
    bool named = path != NULL && path[0] != '\0';
    struct tide_functions *made, *before = NULL;
    void *library = NULL;

    if (!named && atomic_fetch_add_explicit(&tide_looks, 1, memory_order_relaxed) % TIDE_LOOKS_EACH != 0)
        return NULL;
    if (named)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && named && !atomic_exchange(&tide_failed, true))
        fprintf(stderr, "tidemark: NVTX ranges are no tags: %s\n", dlerror());
    if (library == NULL)
        library = dlopen("libtidemark.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    made = library != NULL ? malloc(sizeof(*made)) : NULL;
    if (made == NULL || !tide_take(library, made)) {
        free(made);
        return NULL;
    }
    /* Release: pairs with the acquire in tide_is_there. */
    if (atomic_compare_exchange_strong_explicit(&tide_found, &before, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    free(made);
    return before;
}

/* libtidemark's functions, which the first calls look for; NULL: there is none. */
static const struct tide_functions *
tide_is_there(void)
{
    const struct tide_functions *found = atomic_load_explicit(&tide_found, memory_order_acquire);

    if (found != NULL || atomic_load_explicit(&tide_failed, memory_order_relaxed))
        return found;
    return tide_open();
}

/* Texts. */

static int
compare(const void *left, const void *right)
{
    return strcmp(((const struct text *)left)->text, ((const struct text *)right)->text);
}

/* The text in the tree, which is added if it is new, with *is_new set; NULL without host memory. Lock held. */
static struct text *
text_keep(void **tree, const char *text, bool *is_new)
{
    struct text *copy = malloc(sizeof(*copy) + strlen(text) + 1);
    struct text **node;

    *is_new = false;
    if (copy == NULL)
        return NULL;
    copy->domain = -1;
    strcpy(copy->text, text);
    node = tsearch(copy, tree, compare);
    *is_new = node != NULL && *node == copy;
    if (!*is_new)
        free(copy);
    return node != NULL ? *node : NULL;
}

/* Whether the list of the environment has the domain, or all. */
static bool
domain_is_wanted(const char *name)
{
    const char *list = secure_getenv("TIDEMARK_RUN_NVTX_DOMAINS");

    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");

        if ((length == 1 && *list == '*') || (strlen(name) == length && strncmp(list, name, length) == 0))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static nvtxDomainHandle_t NVTX_API
domain_create(const char *name)
{
    struct text *domain;
    bool is_new;

    if (name == NULL)
        return NULL;
    texts_acquire();
    domain = text_keep(&domains, name, &is_new);
    if (is_new && domain_count < DOMAINS_MOST && domain_is_wanted(name))
        domain->domain = domain_count++;
    texts_release();
    return (nvtxDomainHandle_t)domain;
}

static nvtxDomainHandle_t NVTX_API
domain_create_wide(const wchar_t *name)
{
    char text[WIDE_BYTES];

    if (name == NULL)
        return NULL;
    tidei_nvtx_name_utf8(name, text, sizeof(text));
    return domain_create(text);
}

/* The number of the domain; -1: its ranges are no tags. */
static int
domain_of(nvtxDomainHandle_t domain)
{
    return domain != NULL ? ((const struct text *)(const void *)domain)->domain : 0;
}

static nvtxStringHandle_t NVTX_API
register_string(nvtxDomainHandle_t domain, const char *string)
{
    char clean[TIDEI_NVTX_NAME_BYTES];
    struct text *kept;
    bool is_new;

    /* Where it names nothing it need not be kept: XLA registers on and on. */
    if (domain_of(domain) < 0)
        return (nvtxStringHandle_t)(void *)domain;
    tidei_nvtx_name_clean(string != NULL ? string : "", clean);
    texts_acquire();
    kept = text_keep(&strings, clean, &is_new);
    texts_release();
    return (nvtxStringHandle_t)kept;
}

static nvtxStringHandle_t NVTX_API
register_string_wide(nvtxDomainHandle_t domain, const wchar_t *string)
{
    char text[WIDE_BYTES];

    tidei_nvtx_name_utf8(string != NULL ? string : L"", text, sizeof(text));
    return register_string(domain, text);
}

/* Ranges and marks. `clean` is a name's buffer. */

static const char *
name_of(const char *name, char *clean)
{
    tidei_nvtx_name_clean(name != NULL ? name : "", clean);
    return clean;
}

static const char *
name_of_wide(const wchar_t *name, char *clean)
{
    char text[WIDE_BYTES];

    tidei_nvtx_name_utf8(name != NULL ? name : L"", text, sizeof(text));
    return name_of(text, clean);
}

static const char *
name_of_event(const nvtxEventAttributes_t *event, char *clean)
{
    if (event == NULL || event->size < offsetof(nvtxEventAttributes_t, message) + sizeof(event->message))
        return name_of(NULL, clean);
    switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
        return name_of(event->message.ascii, clean);
    case NVTX_MESSAGE_TYPE_UNICODE:
        return name_of_wide(event->message.unicode, clean);
    case NVTX_MESSAGE_TYPE_REGISTERED:
        if (event->message.registered != NULL)
            return ((const struct text *)(const void *)event->message.registered)->text;
        return name_of(NULL, clean);
    default:
        return name_of(NULL, clean);
    }
}

/* libtidemark's number of a domain as a source of tags. */
static uint32_t
source_of(int domain)
{
    return TIDE_TAG_NVTX + (uint32_t)domain;
}

static int
push(int domain, const char *name)
{
    struct open_ranges *mine = &open_ranges[domain];

    if (mine->muted == 0 && (mine->depth >= DEPTH_MOST || tide_is_there()->push(source_of(domain), name) != TIDE_OK))
        mine->muted = mine->depth + 1;
    return mine->depth++;
}

static int
pop(int domain)
{
    struct open_ranges *mine = &open_ranges[domain];

    if (mine->depth == 0)
        return -1;
    mine->depth--;
    if (mine->muted == 0)
        tide_is_there()->pop(source_of(domain));
    else if (mine->muted == mine->depth + 1)
        mine->muted = 0;
    return mine->depth;
}

static int NVTX_API
range_push(const char *name)
{
    char clean[TIDEI_NVTX_NAME_BYTES];

    return tide_is_there() ? push(0, name_of(name, clean)) : NOT_A_TAG;
}

static int NVTX_API
range_push_wide(const wchar_t *name)
{
    char clean[TIDEI_NVTX_NAME_BYTES];

    return tide_is_there() ? push(0, name_of_wide(name, clean)) : NOT_A_TAG;
}

static int NVTX_API
domain_range_push(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *event)
{
    char clean[TIDEI_NVTX_NAME_BYTES];
    int domain = domain_of(handle);

    return domain >= 0 && tide_is_there() ? push(domain, name_of_event(event, clean)) : NOT_A_TAG;
}

static int NVTX_API
range_push_event(const nvtxEventAttributes_t *event)
{
    return domain_range_push(NULL, event);
}

static int NVTX_API
domain_range_pop(nvtxDomainHandle_t handle)
{
    int domain = domain_of(handle);

    return domain >= 0 && tide_is_there() ? pop(domain) : NOT_A_TAG;
}

static int NVTX_API
range_pop(void)
{
    return domain_range_pop(NULL);
}

static void NVTX_API
mark(const char *text)
{
    char clean[TIDEI_NVTX_NAME_BYTES];

    if (tide_is_there())
        tide_is_there()->mark(name_of(text, clean));
}

static void NVTX_API
mark_wide(const wchar_t *text)
{
    char clean[TIDEI_NVTX_NAME_BYTES];

    if (tide_is_there())
        tide_is_there()->mark(name_of_wide(text, clean));
}

static void NVTX_API
domain_mark(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *event)
{
    char clean[TIDEI_NVTX_NAME_BYTES];

    if (domain_of(handle) >= 0 && tide_is_there())
        tide_is_there()->mark(name_of_event(event, clean));
}

static void NVTX_API
mark_event(const nvtxEventAttributes_t *event)
{
    domain_mark(NULL, event);
}

/* The tables. */

/* A function by its number in the table of its module; checked against the type that NVTX calls it by. */
struct function {
    unsigned number;
    NvtxFunctionPointer function;
};

#define FUNCTION(module, name, own)                                                                                    \
    {                                                                                                                  \
        NVTX_CBID_##module##_##name, (NvtxFunctionPointer) _Generic(&own, nvtx##name##_impl_fntype : &own)             \
    }

static const struct function core_functions[] = {
    FUNCTION(CORE, MarkEx, mark_event),     FUNCTION(CORE, MarkA, mark),
    FUNCTION(CORE, MarkW, mark_wide),       FUNCTION(CORE, RangePushEx, range_push_event),
    FUNCTION(CORE, RangePushA, range_push), FUNCTION(CORE, RangePushW, range_push_wide),
    FUNCTION(CORE, RangePop, range_pop),
};

static const struct function core2_functions[] = {
    FUNCTION(CORE2, DomainMarkEx, domain_mark),
    FUNCTION(CORE2, DomainRangePushEx, domain_range_push),
    FUNCTION(CORE2, DomainRangePop, domain_range_pop),
    FUNCTION(CORE2, DomainRegisterStringA, register_string),
    FUNCTION(CORE2, DomainRegisterStringW, register_string_wide),
    FUNCTION(CORE2, DomainCreateA, domain_create),
    FUNCTION(CORE2, DomainCreateW, domain_create_wide),
};

/* Fill the table of a module; what NVTX has no place for is left out. */
static bool
table_fill(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module, const struct function *functions,
           size_t count)
{
    NvtxFunctionTable table = NULL;
    unsigned size = 0;

    if (callbacks->GetModuleFunctionTable(module, &table, &size) == 0 || table == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (functions[i].number < size && table[functions[i].number] != NULL)
            *table[functions[i].number] = functions[i].function;
    }
    return true;
}

static void
texts_handle_forks(void)
{
    pthread_atfork(texts_acquire, texts_release, texts_release);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);

int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);

    if (callbacks == NULL || callbacks->struct_size < sizeof(*callbacks))
        return 0;
    pthread_once(&once, texts_handle_forks);
    return table_fill(callbacks, NVTX_CB_MODULE_CORE, core_functions,
                      sizeof(core_functions) / sizeof(core_functions[0])) &&
           table_fill(callbacks, NVTX_CB_MODULE_CORE2, core2_functions,
                      sizeof(core2_functions) / sizeof(core2_functions[0]));
}
