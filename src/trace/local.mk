# The recorder; see doc/design.md.
libtidemark_la_SOURCES += \
	src/trace/schema.c \
	src/trace/schema.h
