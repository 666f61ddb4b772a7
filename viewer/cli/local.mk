# Options and help.
libviewer_la_SOURCES += \
	viewer/cli/command.c \
	viewer/cli/command.h
