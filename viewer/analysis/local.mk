# One question a file.
libviewer_la_SOURCES += \
	viewer/analysis/counterfactual.c \
	viewer/analysis/counterfactual.h \
	viewer/analysis/driver-calls.c \
	viewer/analysis/driver-calls.h \
	viewer/analysis/failures.c \
	viewer/analysis/failures.h \
	viewer/analysis/fragment.c \
	viewer/analysis/fragment.h \
	viewer/analysis/groups.c \
	viewer/analysis/groups.h \
	viewer/analysis/histogram.c \
	viewer/analysis/histogram.h \
	viewer/analysis/leaks.c \
	viewer/analysis/leaks.h \
	viewer/analysis/peak.c \
	viewer/analysis/peak.h \
	viewer/analysis/profile.c \
	viewer/analysis/profile.h \
	viewer/analysis/snapshot.c \
	viewer/analysis/snapshot.h \
	viewer/analysis/space.c \
	viewer/analysis/space.h \
	viewer/analysis/steps.c \
	viewer/analysis/steps.h \
	viewer/analysis/summary.c \
	viewer/analysis/summary.h \
	viewer/analysis/summits.c \
	viewer/analysis/summits.h \
	viewer/analysis/suppress.c \
	viewer/analysis/suppress.h \
	viewer/analysis/tallies.c \
	viewer/analysis/tallies.h \
	viewer/analysis/timeline.c \
	viewer/analysis/timeline.h \
	viewer/analysis/top-lives.c \
	viewer/analysis/top-lives.h
