# The data of the HTML report of a job.
libviewer_la_SOURCES += \
	viewer/report-job/grid.c \
	viewer/report-job/grid.h \
	viewer/report-job/job-gather.c \
	viewer/report-job/job-gather.h \
	viewer/report-job/job-manifest.c \
	viewer/report-job/job-manifest.h
