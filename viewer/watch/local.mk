# Running recordings, and the screen that shows them.
libviewer_la_SOURCES += \
	viewer/watch/draw.c \
	viewer/watch/draw.h \
	viewer/watch/find.c \
	viewer/watch/lives.c \
	viewer/watch/names.c \
	viewer/watch/plain.c \
	viewer/watch/process.c \
	viewer/watch/screen.c \
	viewer/watch/watch.h
