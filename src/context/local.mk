# What the caller says and where it stands.
libtidemark_la_SOURCES += \
	src/context/callstack.c \
	src/context/callstack.h \
	src/context/elf.c \
	src/context/elf.h \
	src/context/libdw.c \
	src/context/listener.c \
	src/context/listener.h \
	src/context/modules.c \
	src/context/modules.h \
	src/context/python-api.c \
	src/context/python-api.h \
	src/context/python.c \
	src/context/python.h \
	src/context/sources.c \
	src/context/sources.h \
	src/context/symbols.c \
	src/context/symbols.h \
	src/context/tag.c \
	src/context/tag.h \
	src/context/walk.c \
	src/context/walk.h
