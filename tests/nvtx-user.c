/* The library of nvtx-user.h. */
#include "tests/nvtx-user.h"

#include <nvtx3/nvToolsExt.h>

__attribute__((visibility("default"))) const struct nvtx_user *nvtx_user(void);

static nvtxEventAttributes_t
event_of(const char *name)
{
    return (nvtxEventAttributes_t){ .version = NVTX_VERSION,
                                    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                    .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                    .message.ascii = name };
}

static int
push_event(const char *name)
{
    nvtxEventAttributes_t event = event_of(name);

    return nvtxRangePushEx(&event);
}

static void *
domain_create(const char *name)
{
    return nvtxDomainCreateA(name);
}

static void *
domain_create_wide(const wchar_t *name)
{
    return nvtxDomainCreateW(name);
}

static void *
string_register(void *domain, const char *text)
{
    return nvtxDomainRegisterStringA(domain, text);
}

static int
domain_push(void *domain, const char *name)
{
    nvtxEventAttributes_t event = event_of(name);

    return nvtxDomainRangePushEx(domain, &event);
}

static int
domain_push_wide(void *domain, const wchar_t *name)
{
    nvtxEventAttributes_t event = event_of(NULL);

    event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    event.message.unicode = name;
    return nvtxDomainRangePushEx(domain, &event);
}

static int
domain_push_string(void *domain, void *string)
{
    nvtxEventAttributes_t event = event_of(NULL);

    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = string;
    return nvtxDomainRangePushEx(domain, &event);
}

static int
domain_push_nothing(void *domain)
{
    nvtxEventAttributes_t event = event_of(NULL);

    event.messageType = NVTX_MESSAGE_UNKNOWN;
    return nvtxDomainRangePushEx(domain, &event);
}

static int
domain_pop(void *domain)
{
    return nvtxDomainRangePop(domain);
}

static void
domain_mark(void *domain, const char *text)
{
    nvtxEventAttributes_t event = event_of(text);

    nvtxDomainMarkEx(domain, &event);
}

static int
push(const char *name)
{
    return nvtxRangePushA(name);
}

static int
push_wide(const wchar_t *name)
{
    return nvtxRangePushW(name);
}

static int
pop(void)
{
    return nvtxRangePop();
}

static void
mark(const char *text)
{
    nvtxMarkA(text);
}

static void
start_and_end(const char *name)
{
    nvtxRangeEnd(nvtxRangeStartA(name));
}

const struct nvtx_user *
nvtx_user(void)
{
    static const struct nvtx_user user = {
        .push = push,
        .push_wide = push_wide,
        .push_event = push_event,
        .pop = pop,
        .domain = domain_create,
        .domain_wide = domain_create_wide,
        .string = string_register,
        .domain_push = domain_push,
        .domain_push_wide = domain_push_wide,
        .domain_push_string = domain_push_string,
        .domain_push_nothing = domain_push_nothing,
        .domain_pop = domain_pop,
        .mark = mark,
        .domain_mark = domain_mark,
        .start_and_end = start_and_end,
    };

    return &user;
}
