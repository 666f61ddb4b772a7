# Budgets, and whether a trace keeps to them.
libviewer_la_SOURCES += \
	viewer/check/baseline.c \
	viewer/check/baseline.h \
	viewer/check/budget.c \
	viewer/check/budget.h \
	viewer/check/check.c \
	viewer/check/check.h \
	viewer/check/job-check.c \
	viewer/check/job-check.h \
	viewer/check/result.c \
	viewer/check/result.h \
	viewer/check/write.c
