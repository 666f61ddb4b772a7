# Recorded traffic through a stack.
libviewer_la_SOURCES += \
	viewer/replay/csv.c \
	viewer/replay/input.c \
	viewer/replay/input.h \
	viewer/replay/output.c \
	viewer/replay/output.h \
	viewer/replay/run.c \
	viewer/replay/run.h \
	viewer/replay/stack-report.c \
	viewer/replay/stack-report.h \
	viewer/replay/trace.c \
	viewer/replay/turn.c \
	viewer/replay/turn.h
