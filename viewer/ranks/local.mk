# Many traces of one job as one file of rollups, and what its ranks differ in.
libviewer_la_SOURCES += \
	viewer/ranks/curve.c \
	viewer/ranks/curve.h \
	viewer/ranks/growth.c \
	viewer/ranks/growth.h \
	viewer/ranks/inputs.c \
	viewer/ranks/inputs.h \
	viewer/ranks/job.c \
	viewer/ranks/job.h \
	viewer/ranks/median.c \
	viewer/ranks/median.h \
	viewer/ranks/merge.c \
	viewer/ranks/merge.h \
	viewer/ranks/ranks.c \
	viewer/ranks/ranks.h \
	viewer/ranks/rollup.c \
	viewer/ranks/rollup.h \
	viewer/ranks/store.c \
	viewer/ranks/store.h
