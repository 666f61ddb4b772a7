# What CUPTI tells.
libtidemark_la_SOURCES += \
	src/trace/cupti/activity.c \
	src/trace/cupti/activity.h \
	src/trace/cupti/callbacks.c \
	src/trace/cupti/callbacks.h \
	src/trace/cupti/device-events.c \
	src/trace/cupti/device-events.h \
	src/trace/cupti/driver-calls.c \
	src/trace/cupti/driver-calls.h \
	src/trace/cupti/queue.c \
	src/trace/cupti/queue.h
