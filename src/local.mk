lib_LTLIBRARIES += libtidemark.la
libtidemark_la_CPPFLAGS = $(AM_CPPFLAGS)
# Frame pointers, as call stacks lead through it: at most half a nanosecond for each layer that a call passes (Xeon).
libtidemark_la_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread -fno-omit-frame-pointer
libtidemark_la_LDFLAGS = -version-info 0:0:0 -no-undefined $(EXPORT_LDFLAGS) -pthread \
	-Wl,-z,nodelete
EXTRA_libtidemark_la_DEPENDENCIES = $(top_srcdir)/src/libtidemark.map
EXTRA_DIST += src/libtidemark.map
libtidemark_la_LIBADD = $(SQLITE_LIBS) -ldl
libtidemark_la_SOURCES =
kinds =

include src/resource/local.mk
include src/sync/local.mk
include src/tables/local.mk
include src/account/local.mk
include src/stack/local.mk
include src/context/local.mk
include src/cuda/local.mk
include src/nvtx/local.mk
include src/suballoc/local.mk
include src/trace/ring/local.mk
include src/trace/events/local.mk
include src/trace/cupti/local.mk
include src/trace/database/local.mk
include src/trace/session/local.mk
include src/bases/local.mk
include src/bridge/local.mk
include src/run/local.mk
include src/process/local.mk

# The library once more with its test points, for tests that stop at them or need what is not exported. It brings the
# sources of every folder along. A build with sanitizers is for its tests alone: there the points are in the library, and
# no file is compiled twice.
check_LTLIBRARIES = libtidemark-test.la
libtidemark_test_la_CFLAGS = $(libtidemark_la_CFLAGS)
if SANITIZERS
libtidemark_la_CPPFLAGS += -DTIDEI_TEST_POINTS
libtidemark_test_la_SOURCES =
libtidemark_test_la_LIBADD = $(libtidemark_la_OBJECTS) $(libtidemark_la_LIBADD)
EXTRA_libtidemark_test_la_DEPENDENCIES = $(libtidemark_la_OBJECTS)
else
libtidemark_test_la_SOURCES = $(libtidemark_la_SOURCES)
libtidemark_test_la_CPPFLAGS = $(libtidemark_la_CPPFLAGS) -DTIDEI_TEST_POINTS
libtidemark_test_la_LIBADD = $(libtidemark_la_LIBADD)
endif
