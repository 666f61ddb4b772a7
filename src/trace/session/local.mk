# A recording's life.
libtidemark_la_SOURCES += \
	src/trace/session/callstacks.c \
	src/trace/session/callstacks.h \
	src/trace/session/commit.c \
	src/trace/session/create.c \
	src/trace/session/create.h \
	src/trace/session/finish.c \
	src/trace/session/fork.c \
	src/trace/session/recorder.c \
	src/trace/session/recorder.h \
	src/trace/session/recover.c \
	src/trace/session/registry.c \
	src/trace/session/registry.h \
	src/trace/session/resolve.c \
	src/trace/session/writer-parts.h \
	src/trace/session/writer.c \
	src/trace/session/writer.h
