# Exit codes, units, ids, text, progress, pager.
libviewer_la_SOURCES += \
	viewer/base/callstack-text.c \
	viewer/base/callstack-text.h \
	viewer/base/clock.h \
	viewer/base/due-queue.c \
	viewer/base/due-queue.h \
	viewer/base/exit-status.h \
	viewer/base/file.c \
	viewer/base/file.h \
	viewer/base/id-map.h \
	viewer/base/lanes.c \
	viewer/base/lanes.h \
	viewer/base/message.c \
	viewer/base/message.h \
	viewer/base/order.c \
	viewer/base/order.h \
	viewer/base/output.c \
	viewer/base/output.h \
	viewer/base/parse.c \
	viewer/base/parse.h \
	viewer/base/processor.c \
	viewer/base/processor.h \
	viewer/base/progress.c \
	viewer/base/progress.h \
	viewer/base/range-set.c \
	viewer/base/range-set.h \
	viewer/base/shown.c \
	viewer/base/shown.h \
	viewer/base/temporary.c \
	viewer/base/temporary.h
