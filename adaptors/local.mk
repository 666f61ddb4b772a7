# One line for each adaptor.
libtidemark_la_SOURCES += adaptors/statistics.c
