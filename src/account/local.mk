# Exact sums under threads.
libtidemark_la_SOURCES += \
	src/account/ledger.c \
	src/account/ledger.h
