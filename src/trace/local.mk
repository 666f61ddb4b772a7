# The recorder; see doc/design.md.
libtidemark_la_SOURCES += \
	src/trace/activity.c \
	src/trace/activity.h \
	src/trace/addressmap.c \
	src/trace/addressmap.h \
	src/trace/aside.c \
	src/trace/aside.h \
	src/trace/buffer.c \
	src/trace/buffer.h \
	src/trace/calls.c \
	src/trace/calls-none.c \
	src/trace/callstacks.c \
	src/trace/callstacks.h \
	src/trace/calls.h \
	src/trace/callslot.c \
	src/trace/callslot.h \
	src/trace/clock.c \
	src/trace/clock.h \
	src/trace/commit.c \
	src/trace/create.c \
	src/trace/create.h \
	src/trace/devices.c \
	src/trace/devices.h \
	src/trace/drops.c \
	src/trace/drops.h \
	src/trace/drivercalls.c \
	src/trace/drivercalls.h \
	src/trace/eventcalls.c \
	src/trace/eventcalls.h \
	src/trace/extras.c \
	src/trace/feed.c \
	src/trace/feed-calls.c \
	src/trace/filelimit.c \
	src/trace/filelimit.h \
	src/trace/finish.c \
	src/trace/fork.c \
	src/trace/front.c \
	src/trace/front.h \
	src/trace/frontcalls.c \
	src/trace/function.c \
	src/trace/function.h \
	src/trace/gate.h \
	src/trace/inbox.c \
	src/trace/inbox.h \
	src/trace/load.c \
	src/trace/merge.c \
	src/trace/merge.h \
	src/trace/pair.c \
	src/trace/pair.h \
	src/trace/path.c \
	src/trace/path.h \
	src/trace/record.h \
	src/trace/recorder.c \
	src/trace/recorder.h \
	src/trace/recover.c \
	src/trace/registry.c \
	src/trace/registry.h \
	src/trace/resolve.c \
	src/trace/ringcheck.c \
	src/trace/ringfile.c \
	src/trace/ringfile.h \
	src/trace/sampler.c \
	src/trace/sampler.h \
	src/trace/schema.c \
	src/trace/schema.h \
	src/trace/stacks.c \
	src/trace/store.c \
	src/trace/store.h \
	src/trace/store-write.c \
	src/trace/tag.c \
	src/trace/tag.h \
	src/trace/writer.c \
	src/trace/writer.h \
	src/trace/writer-parts.h \
	src/testpoint.c \
	src/testpoint.h

# The library once more with its test points, for tests that stop at them or need what is not exported. It brings the
# sources of every folder along.
check_LTLIBRARIES = libtidemark-test.la
libtidemark_test_la_SOURCES = $(libtidemark_la_SOURCES)
libtidemark_test_la_CPPFLAGS = $(libtidemark_la_CPPFLAGS) -DTIDEI_TEST_POINTS
libtidemark_test_la_CFLAGS = $(libtidemark_la_CFLAGS)
libtidemark_test_la_LIBADD = $(libtidemark_la_LIBADD)
