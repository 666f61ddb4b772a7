# Budgets, and whether a trace keeps to them.
libviewer_la_SOURCES += \
	viewer/check/budget.c \
	viewer/check/budget.h \
	viewer/check/check.c \
	viewer/check/check.h \
	viewer/check/write.c
