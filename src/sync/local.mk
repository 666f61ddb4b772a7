# How threads, forks and barriers work here.
libtidemark_la_SOURCES += \
	src/sync/lock.c \
	src/sync/lock.h \
	src/sync/testpoint.c \
	src/sync/testpoint.h \
	src/sync/thread.c \
	src/sync/thread.h
