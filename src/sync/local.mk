# How threads, forks and barriers work here.
libtidemark_la_SOURCES += \
	src/sync/barrier.c \
	src/sync/barrier.h \
	src/sync/fault.c \
	src/sync/fault.h \
	src/sync/file-id.c \
	src/sync/file-id.h \
	src/sync/fork.c \
	src/sync/fork.h \
	src/sync/inside.h \
	src/sync/lock.c \
	src/sync/lock.h \
	src/sync/presence.c \
	src/sync/presence.h \
	src/sync/slots.c \
	src/sync/slots.h \
	src/sync/testpoint.h \
	src/sync/thread.c \
	src/sync/thread.h
