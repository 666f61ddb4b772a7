# One format a file.
libviewer_la_SOURCES += \
	viewer/export/chrome.c \
	viewer/export/export.h \
	viewer/export/pprof.c \
	viewer/export/profile.c \
	viewer/export/rmm.c \
	viewer/export/rows.c
