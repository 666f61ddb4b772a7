# The table of layers, and its list.
libtidemark_la_SOURCES += adaptors/kinds.c
BUILT_SOURCES += adaptors/kinds.inc
CLEANFILES += adaptors/kinds.inc
adaptors/libtidemark_la-kinds.lo adaptors/libtidemark_test_la-kinds.lo: adaptors/kinds.inc
adaptors/kinds.inc: Makefile
	$(AM_V_GEN)$(MKDIR_P) adaptors && printf 'KIND(%s)\n' $(kinds) | LC_ALL=C sort >$@.tmp && mv $@.tmp $@

# For each adaptor its sources, its header and, where stack text has it, its kind.
libtidemark_la_SOURCES += adaptors/aligned.c
pkginclude_HEADERS += include/tidemark/aligned.h
kinds += aligned

libtidemark_la_SOURCES += adaptors/arena.c
pkginclude_HEADERS += include/tidemark/arena.h
kinds += arena

libtidemark_la_SOURCES += adaptors/binning.c
pkginclude_HEADERS += include/tidemark/binning.h
kinds += binning

libtidemark_la_SOURCES += adaptors/callback.c
pkginclude_HEADERS += include/tidemark/callback.h

libtidemark_la_SOURCES += adaptors/fallback.c
pkginclude_HEADERS += include/tidemark/fallback.h
kinds += fallback

libtidemark_la_SOURCES += adaptors/fault.c
pkginclude_HEADERS += include/tidemark/fault.h
kinds += fault

libtidemark_la_SOURCES += adaptors/fixed.c
pkginclude_HEADERS += include/tidemark/fixed.h
kinds += fixed

libtidemark_la_SOURCES += adaptors/guard/guard.c adaptors/guard/watched-blocks.c adaptors/guard/watched-blocks.h
pkginclude_HEADERS += include/tidemark/guard.h
kinds += guard

libtidemark_la_SOURCES += adaptors/limit/file.c adaptors/limit/file.h adaptors/limit/lanes.c \
	adaptors/limit/limit.c adaptors/limit/shared.c adaptors/limit/shared.h
pkginclude_HEADERS += include/tidemark/limit.h
kinds += limit

libtidemark_la_SOURCES += adaptors/log/again.c adaptors/log/again.h adaptors/log/log.c adaptors/log/opening.c \
	adaptors/log/opening.h adaptors/log/record.c adaptors/log/record.h
pkginclude_HEADERS += include/tidemark/log.h
kinds += log

libtidemark_la_SOURCES += adaptors/monotonic.c
pkginclude_HEADERS += include/tidemark/monotonic.h
kinds += monotonic

libtidemark_la_SOURCES += adaptors/pool.c
pkginclude_HEADERS += include/tidemark/pool.h
kinds += pool

libtidemark_la_SOURCES += adaptors/prefetch.c
pkginclude_HEADERS += include/tidemark/prefetch.h
kinds += prefetch

libtidemark_la_SOURCES += adaptors/retry.c
pkginclude_HEADERS += include/tidemark/retry.h
kinds += retry

libtidemark_la_SOURCES += adaptors/statistics.c
pkginclude_HEADERS += include/tidemark/statistics.h
kinds += statistics

libtidemark_la_SOURCES += adaptors/track/table.c adaptors/track/table.h adaptors/track/track.c
pkginclude_HEADERS += include/tidemark/track.h
kinds += track
