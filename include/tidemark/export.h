/* TIDE_EXPORT marks what the library exports. TIDE_PRINTF has the compiler check format strings. */
#ifndef TIDEMARK_EXPORT_H
#define TIDEMARK_EXPORT_H

#if defined(__GNUC__)
#define TIDE_EXPORT               __attribute__((visibility("default")))
#define TIDE_PRINTF(words, first) __attribute__((__format__(__printf__, words, first)))
#else
#define TIDE_EXPORT
#define TIDE_PRINTF(words, first)
#endif

#endif
