# Running recordings: where they are found, and what they say.
libviewer_la_SOURCES += \
	viewer/running/find.c \
	viewer/running/look.c \
	viewer/running/names.c \
	viewer/running/running.h
