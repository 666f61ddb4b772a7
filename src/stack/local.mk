# Text to stack and back.
libtidemark_la_SOURCES += \
	src/stack/build.c \
	src/stack/describe.c \
	src/stack/error.c \
	src/stack/find.c \
	src/stack/inherit.c \
	src/stack/lex.c \
	src/stack/parse.c \
	src/stack/parse.h \
	src/stack/stack.h \
	src/stack/value.c
