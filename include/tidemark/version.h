/* The version of Tidemark: of these headers, and of the library that runs. */
#ifndef TIDEMARK_VERSION_H
#define TIDEMARK_VERSION_H

#include <stdint.h>

#include <tidemark/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of these headers as one number, 0xMMmmpp for major, minor and patch: 0x000100 is 0.1.0. Later versions
 * have larger numbers, so that a program can ask for one: `#if TIDE_VERSION_NUMBER >= 0x000200`.
 */
#define TIDE_VERSION_NUMBER 0x000100

/*
 * The version of the library that the program runs with, in the form of TIDE_VERSION_NUMBER. It may be another than
 * that of the headers that the program was compiled with.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT uint32_t tide_version_number(void);

/* The same in words, "0.1.0". A constant, never NULL. Thread safety: any thread. Since 0.1. */
TIDE_EXPORT const char *tide_version(void);

#ifdef __cplusplus
}
#endif
#endif
