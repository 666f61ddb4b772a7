# The fixed functions of frameworks, over stacks that can be exchanged.
libtidemark_la_SOURCES += \
	src/bridge/allocate.c \
	src/bridge/allocate.h \
	src/bridge/blocks.c \
	src/bridge/blocks.h \
	src/bridge/capture.c \
	src/bridge/capture.h \
	src/bridge/device.c \
	src/bridge/device.h \
	src/bridge/figures.c \
	src/bridge/fraction.c \
	src/bridge/graphs.c \
	src/bridge/messages.c \
	src/bridge/torch.c \
	src/bridge/uses.c \
	src/bridge/uses.h

# An exception is thrown through these functions. GNU make sets the flag for this file alone.
src/bridge/libtidemark_la-torch.lo src/bridge/libtidemark_test_la-torch.lo: bridge_raise_cflags = -fexceptions
libtidemark_la_CFLAGS += $(bridge_raise_cflags)
