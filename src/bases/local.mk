# Where memory comes from.
libtidemark_la_SOURCES += \
	src/bases/cuda.c \
	src/bases/driver/access.c \
	src/bases/driver/driver.c \
	src/bases/driver/import.c \
	src/bases/driver/options.c \
	src/bases/driver/options.h \
	src/bases/driver/pool.c \
	src/bases/driver/pool.h \
	src/bases/driver/share.c \
	src/bases/driver/share.h \
	src/bases/host.c \
	src/bases/managed.c \
	src/bases/none.c \
	src/bases/pinned.c \
	src/bases/sim.c \
	src/bases/unpooled.c \
	src/bases/unpooled.h
kinds += cuda driver host managed pinned sim
