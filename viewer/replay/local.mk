# Recorded traffic through a stack.
libviewer_la_SOURCES += \
	viewer/replay/csv.c \
	viewer/replay/input.c \
	viewer/replay/input.h \
	viewer/replay/keep.c \
	viewer/replay/keep.h \
	viewer/replay/pace.c \
	viewer/replay/pace.h \
	viewer/replay/report.c \
	viewer/replay/report.h \
	viewer/replay/run.c \
	viewer/replay/run.h \
	viewer/replay/streams.c \
	viewer/replay/streams.h \
	viewer/replay/trace.c
