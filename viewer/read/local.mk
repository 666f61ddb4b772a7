# A trace as a stream of events.
libviewer_la_SOURCES += \
	viewer/read/event-stream.c \
	viewer/read/event-stream.h \
	viewer/read/event-tables.c \
	viewer/read/event-tables.h \
	viewer/read/callstacks.c \
	viewer/read/callstacks.h \
	viewer/read/device-use.c \
	viewer/read/device-use.h \
	viewer/read/filter.c \
	viewer/read/filter.h \
	viewer/read/json-pull.c \
	viewer/read/json-pull.h \
	viewer/read/names.c \
	viewer/read/names.h \
	viewer/read/pickle.c \
	viewer/read/pickle.h \
	viewer/read/rmm-csv.c \
	viewer/read/rmm-csv.h \
	viewer/read/routes.c \
	viewer/read/routes.h \
	viewer/read/samples.c \
	viewer/read/samples.h \
	viewer/read/scan.c \
	viewer/read/scan.h \
	viewer/read/trace-layers.c \
	viewer/read/trace-layers.h \
	viewer/read/trace-open.c \
	viewer/read/trace.c \
	viewer/read/trace.h \
	viewer/read/view.c \
	viewer/read/view.h
