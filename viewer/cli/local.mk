# Options and help.
libviewer_la_SOURCES += \
	viewer/cli/command.c \
	viewer/cli/command.h \
	viewer/cli/layer-help.c \
	viewer/cli/layer-help.h

# `tidemark help LAYER` prints sections of the reference.
BUILT_SOURCES += viewer/cli/stack-text.inc
CLEANFILES += viewer/cli/stack-text.inc
viewer/cli/stack-text.inc: doc/stack-text.md
	$(AM_V_GEN)$(MKDIR_P) viewer/cli && sed 's/[\\"]/\\&/g; s/^/"/; s/$$/",/' $(srcdir)/doc/stack-text.md >$@.tmp && mv $@.tmp $@

# BUILT_SOURCES are made first by `make all` and `make check` alone, not by `make tidemark`. A variable, because automake
# leaves out its own rule for a target that is named.
layer_help_object = viewer/cli/libviewer_la-layer-help.lo
$(layer_help_object): viewer/cli/stack-text.inc
