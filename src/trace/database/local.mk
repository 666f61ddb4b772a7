# The SQLite file.
libtidemark_la_SOURCES += \
	src/trace/database/bulk-allocations.c \
	src/trace/database/bulk-calls.c \
	src/trace/database/bulk-refusals.c \
	src/trace/database/bulk.c \
	src/trace/database/bulk.h \
	src/trace/database/callstacks.c \
	src/trace/database/columns.def \
	src/trace/database/common-rows.c \
	src/trace/database/common-rows.h \
	src/trace/database/database.c \
	src/trace/database/database.h \
	src/trace/database/definitions.c \
	src/trace/database/gate.h \
	src/trace/database/guard.c \
	src/trace/database/guard.h \
	src/trace/database/insert.c \
	src/trace/database/insert.h \
	src/trace/database/load.c \
	src/trace/database/look.c \
	src/trace/database/look.h \
	src/trace/database/open.c \
	src/trace/database/files.c \
	src/trace/database/files.h \
	src/trace/database/identity.c \
	src/trace/database/identity.h \
	src/trace/database/schema.c \
	src/trace/database/schema.h \
	src/trace/database/transaction.c \
	src/trace/database/vfs.c \
	src/trace/database/vfs.h
