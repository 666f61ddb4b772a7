# Text to stack and back.
libtidemark_la_SOURCES += \
	src/stack/build.c \
	src/stack/check.c \
	src/stack/error.c \
	src/stack/layers.c \
	src/stack/lex.c \
	src/stack/parse.c \
	src/stack/parse.h \
	src/stack/stack.h \
	src/stack/value.c
