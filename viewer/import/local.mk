# One format a file.
libviewer_la_SOURCES += \
	viewer/import/import.c \
	viewer/import/import.h \
	viewer/import/nsys.c \
	viewer/import/pytorch-json.c \
	viewer/import/pytorch-json.h \
	viewer/import/pytorch.c \
	viewer/import/rmm.c
