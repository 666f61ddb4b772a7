# What a command answers, as tables, JSON, CSV and Markdown.
libviewer_la_SOURCES += \
	viewer/output/callstack-text.c \
	viewer/output/callstack-text.h \
	viewer/output/drawing.c \
	viewer/output/drawing.h \
	viewer/output/emit.c \
	viewer/output/emit.h \
	viewer/output/json-pull.c \
	viewer/output/json-pull.h \
	viewer/output/query-output.c \
	viewer/output/query-output.h \
	viewer/output/report-item.h \
	viewer/output/report-layout.c \
	viewer/output/report-layout.h \
	viewer/output/report-table.c \
	viewer/output/report-write.c \
	viewer/output/report.c \
	viewer/output/report.h
