# Where memory comes from.
libtidemark_la_SOURCES += \
	src/bases/default.c \
	src/bases/driver/driver.c \
	src/bases/driver/import.c \
	src/bases/driver/pool.c \
	src/bases/driver/pool.h \
	src/bases/driver/share.c \
	src/bases/figures.h \
	src/bases/host.c \
	src/bases/none.c \
	src/bases/sim-handles.c \
	src/bases/sim-handles.h \
	src/bases/sim-lives.c \
	src/bases/sim-lives.h \
	src/bases/sim-mempool.c \
	src/bases/sim-mempool.h \
	src/bases/sim-pages.c \
	src/bases/sim-pages.h \
	src/bases/sim-pieces.c \
	src/bases/sim-pieces.h \
	src/bases/sim-search.h \
	src/bases/sim-tally.h \
	src/bases/sim-units.c \
	src/bases/sim-units.h \
	src/bases/sim.c \
	src/bases/unpooled.c \
	src/bases/vmm/base.h \
	src/bases/vmm/block.h \
	src/bases/vmm/end.c \
	src/bases/vmm/pages.c \
	src/bases/vmm/reuse.c \
	src/bases/vmm/share.c \
	src/bases/vmm/space.c \
	src/bases/vmm/space.h \
	src/bases/vmm/vmm.c
kinds += cuda driver host managed pinned sim vmm
