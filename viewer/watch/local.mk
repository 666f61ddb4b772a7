# The screen and the lines that show running recordings.
libviewer_la_SOURCES += \
	viewer/watch/draw.c \
	viewer/watch/draw.h \
	viewer/watch/lives.c \
	viewer/watch/plain.c \
	viewer/watch/process.c \
	viewer/watch/screen.c \
	viewer/watch/watch.h
