# The driver and CUPTI as tables of functions.
libtidemark_la_SOURCES += \
	src/cuda/cupti-table.c \
	src/cuda/cupti-table.h \
	src/cuda/device-query.c \
	src/cuda/device.c \
	src/cuda/device.h \
	src/cuda/driver-entries.def \
	src/cuda/driver-load.c \
	src/cuda/driver-table.c \
	src/cuda/driver-table.h \
	src/cuda/marks.c \
	src/cuda/marks.h \
	src/cuda/memory-io.c \
	src/cuda/memory-io.h
