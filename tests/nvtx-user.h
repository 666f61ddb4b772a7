/* A library that uses NVTX, as functions of plain types. The tests have two, each with the tables of its own. */
#ifndef TESTS_NVTX_USER_H
#define TESTS_NVTX_USER_H

#include <wchar.h>

struct nvtx_user {
    int (*push)(const char *name);
    int (*push_wide)(const wchar_t *name);
    int (*push_event)(const char *name); /* in the default domain, by its attributes */
    int (*pop)(void);
    void *(*domain)(const char *name);
    void *(*domain_wide)(const wchar_t *name);
    void *(*string)(void *domain, const char *text);
    int (*domain_push)(void *domain, const char *name);
    int (*domain_push_wide)(void *domain, const wchar_t *name);
    int (*domain_push_string)(void *domain, void *string);
    int (*domain_push_nothing)(void *domain); /* without a message */
    int (*domain_pop)(void *domain);
    void (*mark)(const char *text);
    void (*domain_mark)(void *domain, const char *text);
    void (*start_and_end)(const char *name);
};

#endif
