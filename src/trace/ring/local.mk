# Records, rings, the calling side.
libtidemark_la_SOURCES += \
	src/trace/ring/capture.c \
	src/trace/ring/capture.h \
	src/trace/ring/check.c \
	src/trace/ring/claim.c \
	src/trace/ring/claim.h \
	src/trace/ring/clock.c \
	src/trace/ring/clock.h \
	src/trace/ring/drops.c \
	src/trace/ring/drops.h \
	src/trace/ring/filelimit.c \
	src/trace/ring/filelimit.h \
	src/trace/ring/function.c \
	src/trace/ring/function.h \
	src/trace/ring/gauge.h \
	src/trace/ring/owner.c \
	src/trace/ring/owner.h \
	src/trace/ring/producer.c \
	src/trace/ring/producer.h \
	src/trace/ring/record.h \
	src/trace/ring/ringfile.c \
	src/trace/ring/ringfile.h \
	src/trace/ring/session.c \
	src/trace/ring/session.h
