# The account of all device memory of a process, behind wrappers of the driver's functions.
libtidemark_la_SOURCES += \
	src/process/account.c \
	src/process/account.h \
	src/process/answers.c \
	src/process/array.c \
	src/process/async.c \
	src/process/base.c \
	src/process/base.h \
	src/process/call.h \
	src/process/context.c \
	src/process/devices.c \
	src/process/devices.h \
	src/process/functions.c \
	src/process/functions.def \
	src/process/functions.h \
	src/process/held.c \
	src/process/held.h \
	src/process/host.c \
	src/process/imported.c \
	src/process/plain.c \
	src/process/stacks.c \
	src/process/stacks.h \
	src/process/start.c \
	src/process/turn.h \
	src/process/virtual.c
