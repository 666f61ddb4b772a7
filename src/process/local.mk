# The account of all device memory of a process, behind wrappers of the driver's functions.
libtidemark_la_SOURCES += \
	src/process/account.c \
	src/process/account.h \
	src/process/base.c \
	src/process/base.h \
	src/process/call.h \
	src/process/devices.c \
	src/process/devices.h \
	src/process/functions.def \
	src/process/functions.h \
	src/process/passed.c \
	src/process/plain.c \
	src/process/stacks.c \
	src/process/stacks.h \
	src/process/start.c
