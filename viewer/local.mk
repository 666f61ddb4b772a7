# The `tidemark` command. What reads traces is a library of its own, so that tests can call it.
noinst_LTLIBRARIES += libviewer.la
libviewer_la_CPPFLAGS = $(AM_CPPFLAGS)
libviewer_la_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) $(COMMAND_CFLAGS)
libviewer_la_SOURCES = \
	src/resource/visible.c \
	src/resource/visible.h \
	src/tables/lives.c \
	src/tables/lives.h \
	src/tables/map.c \
	src/tables/map.h \
	src/trace/database/insert.c \
	src/trace/database/insert.h \
	src/trace/database/schema.c \
	src/trace/database/schema.h
libviewer_la_LIBADD = $(SQLITE_LIBS) $(COMMAND_LIBS)

bin_PROGRAMS += tidemark
tidemark_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBDIR='"$(pkglibdir)"'
tidemark_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS) $(COMMAND_CFLAGS)
tidemark_LDADD = libviewer.la libtidemark.la $(SQLITE_LIBS) $(COMMAND_LIBS) -ldl
tidemark_SOURCES =

include viewer/base/local.mk
include viewer/output/local.mk
include viewer/cli/local.mk
include viewer/read/local.mk
include viewer/analysis/local.mk
include viewer/import/local.mk
include viewer/export/local.mk
include viewer/replay/local.mk
include viewer/recommend/local.mk
include viewer/page/local.mk
include viewer/report/local.mk
include viewer/running/local.mk
include viewer/metrics/local.mk
include viewer/ranks/local.mk
include viewer/report-job/local.mk
include viewer/check/local.mk
include viewer/watch/local.mk
include viewer/commands/local.mk

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
