# One format a file.
libviewer_la_SOURCES += \
	viewer/export/chrome.c \
	viewer/export/collapsed.c \
	viewer/export/csv.c \
	viewer/export/export.c \
	viewer/export/export.h \
	viewer/export/jsonl.c \
	viewer/export/pprof.c \
	viewer/export/rmm.c \
	viewer/export/rows.c \
	viewer/export/rows.h \
	viewer/export/speedscope.c
