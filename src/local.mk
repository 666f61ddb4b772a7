lib_LTLIBRARIES += libtidemark.la
libtidemark_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/src
# Frame pointers, as call stacks lead through it: at most half a nanosecond for each layer that a call passes (Xeon).
libtidemark_la_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) -pthread -fno-omit-frame-pointer
libtidemark_la_LDFLAGS = -version-info 0:0:0 -no-undefined -export-symbols-regex '^tide_' -pthread \
	-Wl,-z,nodelete
libtidemark_la_LIBADD = $(SQLITE_LIBS) -ldl
libtidemark_la_SOURCES = \
	src/address-shards.c \
	src/address-shards.h \
	src/bin-list.c \
	src/bin-list.h \
	src/bin-table.c \
	src/bin-table.h \
	src/block-shards.c \
	src/block-shards.h \
	src/blocks.c \
	src/blocks.h \
	src/budget.c \
	src/budget.h \
	src/callstack.c \
	src/callstack.h \
	src/canaries.c \
	src/canaries.h \
	src/cuda.c \
	src/cupti-table.c \
	src/cupti-table.h \
	src/describe.h \
	src/device-list.c \
	src/device-list.h \
	src/device-query.c \
	src/device.c \
	src/device.h \
	src/driver-access.c \
	src/driver-import.c \
	src/driver-load.c \
	src/driver-none.c \
	src/driver-options.c \
	src/driver-options.h \
	src/driver-order.c \
	src/driver-order.h \
	src/driver-pool.c \
	src/driver-pool.h \
	src/driver-share.c \
	src/driver-share.h \
	src/driver-table.c \
	src/driver-table.h \
	src/driver-text.c \
	src/driver.c \
	src/frames.c \
	src/frames.h \
	src/host.c \
	src/kind.h \
	src/ledger-leases.c \
	src/ledger-leases.h \
	src/ledger.c \
	src/ledger.h \
	src/lock.c \
	src/lock.h \
	src/managed.c \
	src/message.c \
	src/modules.c \
	src/modules.h \
	src/pinned.c \
	src/plain.c \
	src/plain.h \
	src/registry.c \
	src/resource.c \
	src/resource.h \
	src/sim.c \
	src/stack-arguments.c \
	src/stack-build.c \
	src/stack-describe.c \
	src/stack-error.c \
	src/stack-error.h \
	src/stack-inherit.c \
	src/stack-lex.c \
	src/stack-lex.h \
	src/stack-parse.c \
	src/stack-parse.h \
	src/stack-parser.h \
	src/stack-value.c \
	src/stack-value.h \
	src/stackwalk.c \
	src/stackwalk.h \
	src/status.c \
	src/symbols.c \
	src/symbols.h \
	src/tag-counters.c \
	src/tag-counters.h \
	src/text.c \
	src/threadslot.c \
	src/threadslot.h \
	src/touch.c \
	src/touch.h \
	src/track-block.h \
	src/track-buckets.c \
	src/track-buckets.h \
	src/track-table.c \
	src/track-table.h \
	src/version.c \
	src/watched-blocks.c \
	src/watched-blocks.h

