# A recording's life.
libtidemark_la_SOURCES += \
	src/trace/session/commit.c \
	src/trace/session/context.c \
	src/trace/session/copy.c \
	src/trace/session/create.c \
	src/trace/session/definitions.c \
	src/trace/session/exit.c \
	src/trace/session/finish.c \
	src/trace/session/fork.c \
	src/trace/session/late.c \
	src/trace/session/notes.c \
	src/trace/session/protect.c \
	src/trace/session/recorder.c \
	src/trace/session/recorder.h \
	src/trace/session/recover.c \
	src/trace/session/resolve.c \
	src/trace/session/writer.c \
	src/trace/session/writer.h
