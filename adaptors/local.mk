# One line for each adaptor.
libtidemark_la_SOURCES += adaptors/aligned.c
libtidemark_la_SOURCES += adaptors/arena.c
libtidemark_la_SOURCES += adaptors/binning.c
libtidemark_la_SOURCES += adaptors/callback.c
libtidemark_la_SOURCES += adaptors/fallback.c
libtidemark_la_SOURCES += adaptors/fault.c
libtidemark_la_SOURCES += adaptors/fixed.c
libtidemark_la_SOURCES += adaptors/guard.c
libtidemark_la_SOURCES += adaptors/limit.c
libtidemark_la_SOURCES += adaptors/log.c adaptors/log-open.c adaptors/log.h
libtidemark_la_SOURCES += adaptors/monotonic.c
libtidemark_la_SOURCES += adaptors/pool.c
libtidemark_la_SOURCES += adaptors/prefetch.c
libtidemark_la_SOURCES += adaptors/retry.c
libtidemark_la_SOURCES += adaptors/statistics.c
libtidemark_la_SOURCES += adaptors/track.c
