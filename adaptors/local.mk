# The one list of layers.
libtidemark_la_SOURCES += adaptors/kinds.c

# One line for each adaptor.
libtidemark_la_SOURCES += adaptors/aligned.c
libtidemark_la_SOURCES += adaptors/arena.c
libtidemark_la_SOURCES += adaptors/binning/binning.c
libtidemark_la_SOURCES += adaptors/callback.c
libtidemark_la_SOURCES += adaptors/fallback.c
libtidemark_la_SOURCES += adaptors/fault.c
libtidemark_la_SOURCES += adaptors/fixed/fixed.c
libtidemark_la_SOURCES += adaptors/guard/canaries.c adaptors/guard/canaries.h adaptors/guard/guard.c \
	adaptors/guard/watched-blocks.c adaptors/guard/watched-blocks.h
libtidemark_la_SOURCES += adaptors/limit/limit.c
libtidemark_la_SOURCES += adaptors/log/log.c adaptors/log/log.h adaptors/log/open.c
libtidemark_la_SOURCES += adaptors/monotonic.c
libtidemark_la_SOURCES += adaptors/pool.c
libtidemark_la_SOURCES += adaptors/prefetch.c
libtidemark_la_SOURCES += adaptors/retry.c
libtidemark_la_SOURCES += adaptors/statistics/statistics.c adaptors/statistics/tag-counters.c \
	adaptors/statistics/tag-counters.h
libtidemark_la_SOURCES += adaptors/track/table.c adaptors/track/table.h adaptors/track/track.c
