# main and one file a command.
tidemark_SOURCES += \
	viewer/commands/account.c \
	viewer/commands/account.h \
	viewer/commands/check.c \
	viewer/commands/commands.h \
	viewer/commands/completion.c \
	viewer/commands/devices.c \
	viewer/commands/diff.c \
	viewer/commands/export.c \
	viewer/commands/failures.c \
	viewer/commands/fragmentation.c \
	viewer/commands/histogram.c \
	viewer/commands/import.c \
	viewer/commands/layers.c \
	viewer/commands/leaks.c \
	viewer/commands/main.c \
	viewer/commands/memory.c \
	viewer/commands/memory.h \
	viewer/commands/peak.c \
	viewer/commands/query.c \
	viewer/commands/recover.c \
	viewer/commands/replay.c \
	viewer/commands/run-program.c \
	viewer/commands/run-program.h \
	viewer/commands/run-wait.c \
	viewer/commands/run-wait.h \
	viewer/commands/run.c \
	viewer/commands/stack.c \
	viewer/commands/summary.c \
	viewer/commands/tables.c \
	viewer/commands/tables.h \
	viewer/commands/timeline.c \
	viewer/commands/top.c \
	viewer/commands/training.c \
	viewer/commands/training.h
