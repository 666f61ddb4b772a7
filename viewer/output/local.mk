# What a command answers, as tables, JSON, CSV and Markdown.
libviewer_la_SOURCES += \
	viewer/output/emit.c \
	viewer/output/emit.h \
	viewer/output/json.h \
	viewer/output/report-item.h \
	viewer/output/report-table.c \
	viewer/output/report-write.c \
	viewer/output/report.c \
	viewer/output/report.h \
	viewer/output/table.c \
	viewer/output/table.h
