# Stacks tried on recorded traffic.
libviewer_la_SOURCES += \
	viewer/recommend/bins.c \
	viewer/recommend/bins.h \
	viewer/recommend/candidates.c \
	viewer/recommend/candidates.h \
	viewer/recommend/clearing.c \
	viewer/recommend/clearing.h \
	viewer/recommend/costs.c \
	viewer/recommend/costs.h \
	viewer/recommend/measure-bases.h \
	viewer/recommend/measure-calls.c \
	viewer/recommend/measure-calls.h \
	viewer/recommend/measure-driver.c \
	viewer/recommend/measure-vmm.c \
	viewer/recommend/measure.c \
	viewer/recommend/measure.h \
	viewer/recommend/model.c \
	viewer/recommend/model.h \
	viewer/recommend/ranking.c \
	viewer/recommend/ranking.h \
	viewer/recommend/sweep.c \
	viewer/recommend/sweep.h \
	viewer/recommend/traffic.c \
	viewer/recommend/traffic.h
