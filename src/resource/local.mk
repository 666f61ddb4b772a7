# What a layer is.
libtidemark_la_SOURCES += \
	src/resource/calls.c \
	src/resource/interrupted.c \
	src/resource/interrupted.h \
	src/resource/kind.c \
	src/resource/kind.h \
	src/resource/message.c \
	src/resource/place.h \
	src/resource/await.h \
	src/resource/resource.c \
	src/resource/resource.h \
	src/resource/status.c \
	src/resource/text.c \
	src/resource/upstreams.c \
	src/resource/upstreams.h \
	src/resource/version.c \
	src/resource/visible.c \
	src/resource/visible.h
