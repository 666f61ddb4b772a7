# Text to stack and back.
libtidemark_la_SOURCES += \
	src/stack/build.c \
	src/stack/build.h \
	src/stack/check.c \
	src/stack/check.h \
	src/stack/describe.c \
	src/stack/describe.h \
	src/stack/error.c \
	src/stack/error.h \
	src/stack/find.c \
	src/stack/find.h \
	src/stack/inherit.c \
	src/stack/inherit.h \
	src/stack/lex.c \
	src/stack/lex.h \
	src/stack/parse.c \
	src/stack/parse.h \
	src/stack/value.c \
	src/stack/value.h
