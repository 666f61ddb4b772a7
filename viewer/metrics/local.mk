# Running recordings as metrics: the text, and the server.
libviewer_la_SOURCES += \
	viewer/metrics/gather.c \
	viewer/metrics/labels.c \
	viewer/metrics/metrics.h \
	viewer/metrics/serve.c \
	viewer/metrics/text.c
