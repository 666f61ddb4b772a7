# The `tidemark` command. What reads traces is a library of its own, so that tests can call it.
noinst_LTLIBRARIES += libviewer.la
libviewer_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
libviewer_la_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) $(COMMAND_CFLAGS)
libviewer_la_SOURCES = \
	src/trace/schema.c \
	src/trace/schema.h \
	viewer/align.c \
	viewer/align.h \
	viewer/budget.c \
	viewer/budget.h \
	viewer/check-explain.c \
	viewer/check-explain.h \
	viewer/check-write.c \
	viewer/check-write.h \
	viewer/check.c \
	viewer/check.h \
	viewer/command.c \
	viewer/command.h \
	viewer/counterfactual.c \
	viewer/counterfactual.h \
	viewer/drawing.c \
	viewer/drawing.h \
	viewer/devices.c \
	viewer/devices.h \
	viewer/driver-calls.c \
	viewer/driver-calls.h \
	viewer/due-queue.c \
	viewer/due-queue.h \
	viewer/emit.c \
	viewer/emit.h \
	viewer/failures.c \
	viewer/failures.h \
	viewer/filter.c \
	viewer/filter.h \
	viewer/fragment.c \
	viewer/fragment.h \
	viewer/groups.c \
	viewer/groups.h \
	viewer/histogram.c \
	viewer/histogram.h \
	viewer/id-map.c \
	viewer/id-map.h \
	viewer/import-nsys.c \
	viewer/import-pytorch.c \
	viewer/import-rmm.c \
	viewer/import.c \
	viewer/import.h \
	viewer/json-pull.c \
	viewer/json-pull.h \
	viewer/leaks.c \
	viewer/leaks.h \
	viewer/levels.c \
	viewer/levels.h \
	viewer/lives-table.c \
	viewer/lives-table.h \
	viewer/names.c \
	viewer/names.h \
	viewer/nearest.c \
	viewer/nearest.h \
	viewer/options.c \
	viewer/options.h \
	viewer/order.c \
	viewer/order.h \
	viewer/output.c \
	viewer/output.h \
	viewer/pager.c \
	viewer/pager.h \
	viewer/parse.c \
	viewer/parse.h \
	viewer/peak.c \
	viewer/peak.h \
	viewer/progress.c \
	viewer/progress.h \
	viewer/pytorch-json.c \
	viewer/pytorch-json.h \
	viewer/range-set.c \
	viewer/range-set.h \
	viewer/reading.c \
	viewer/reading.h \
	viewer/replay-csv.c \
	viewer/replay-input.c \
	viewer/replay-input.h \
	viewer/replay-run.c \
	viewer/replay-run.h \
	viewer/replay-trace.c \
	viewer/replay-turn.c \
	viewer/replay-turn.h \
	viewer/report-item.h \
	viewer/report-layout.c \
	viewer/report-layout.h \
	viewer/report-table.c \
	viewer/report-write.c \
	viewer/report.c \
	viewer/report.h \
	viewer/rmm-csv.c \
	viewer/rmm-csv.h \
	viewer/samples.c \
	viewer/samples.h \
	viewer/scan.c \
	viewer/scan.h \
	viewer/snapshot.c \
	viewer/snapshot.h \
	viewer/space.c \
	viewer/space.h \
	viewer/stack-text.c \
	viewer/stack-text.h \
	viewer/steps.c \
	viewer/steps.h \
	viewer/summary.c \
	viewer/summary.h \
	viewer/summits.c \
	viewer/summits.h \
	viewer/suppress.c \
	viewer/suppress.h \
	viewer/tallies.c \
	viewer/tallies.h \
	viewer/tally.h \
	viewer/timeline.c \
	viewer/timeline.h \
	viewer/top-lives.c \
	viewer/top-lives.h \
	viewer/trace-layers.c \
	viewer/trace-layers.h \
	viewer/trace-open.c \
	viewer/trace-open.h \
	viewer/trace-schema.c \
	viewer/trace-schema.h \
	viewer/trace-unknown.c \
	viewer/trace-unknown.h \
	viewer/trace-writer.c \
	viewer/trace-writer.h \
	viewer/turns.c \
	viewer/turns.h \
	viewer/verdict.c \
	viewer/verdict.h \
	viewer/view.c \
	viewer/view.h
libviewer_la_LIBADD = $(SQLITE_LIBS) $(COMMAND_LIBS)

bin_PROGRAMS += tidemark
tidemark_CPPFLAGS = $(AM_CPPFLAGS)
tidemark_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) $(COMMAND_CFLAGS)
tidemark_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS)
tidemark_SOURCES = \
	viewer/cmd-check.c \
	viewer/cmd-completion.c \
	viewer/cmd-devices.c \
	viewer/cmd-diff.c \
	viewer/cmd-export.c \
	viewer/cmd-failures.c \
	viewer/cmd-fragmentation.c \
	viewer/cmd-histogram.c \
	viewer/cmd-import.c \
	viewer/cmd-layers.c \
	viewer/cmd-leaks.c \
	viewer/cmd-peak.c \
	viewer/cmd-query.c \
	viewer/cmd-recover.c \
	viewer/cmd-replay.c \
	viewer/cmd-summary.c \
	viewer/cmd-timeline.c \
	viewer/cmd-top.c \
	viewer/export-chrome.c \
	viewer/export-pprof.c \
	viewer/export-profile.c \
	viewer/export-rmm.c \
	viewer/export-rows.c \
	viewer/export.h \
	viewer/main.c \
	viewer/profile.c \
	viewer/profile.h \
	viewer/query-output.c \
	viewer/query-output.h \
	viewer/replay-output.c \
	viewer/replay-output.h \
	viewer/stack-report.c \
	viewer/stack-report.h

# The completions are what the command prints, so that they know what it knows.
if !CROSS_COMPILING
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = viewer/completion/tidemark
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = viewer/completion/_tidemark
CLEANFILES += $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA)
endif

viewer/completion/tidemark: tidemark$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) viewer/completion && ./tidemark$(EXEEXT) completion bash >$@-new && mv $@-new $@
viewer/completion/_tidemark: tidemark$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) viewer/completion && ./tidemark$(EXEEXT) completion zsh >$@-new && mv $@-new $@
