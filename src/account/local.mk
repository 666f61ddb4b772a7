# Exact sums under threads.
libtidemark_la_SOURCES += \
	src/account/leases.c \
	src/account/leases.h \
	src/account/ledger.c \
	src/account/ledger.h
