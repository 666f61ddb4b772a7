# Records in the order of time, paired.
libtidemark_la_SOURCES += \
	src/trace/events/counts.c \
	src/trace/events/counts.h \
	src/trace/events/early.c \
	src/trace/events/early.h \
	src/trace/events/asker.c \
	src/trace/events/asker.h \
	src/trace/events/event-calls.c \
	src/trace/events/event-calls.h \
	src/trace/events/gauges.c \
	src/trace/events/gauges.h \
	src/trace/events/merge.c \
	src/trace/events/merge.h \
	src/trace/events/pair.c \
	src/trace/events/pair.h \
	src/trace/events/sampler.c \
	src/trace/events/sampler.h \
	src/trace/events/steady.c \
	src/trace/events/steady.h \
	src/trace/events/timeline.c \
	src/trace/events/timeline.h
