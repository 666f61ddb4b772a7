# Small programs that make check builds and runs.
check_PROGRAMS += examples/budget-t examples/own-resource examples/share examples/streams examples/wrap
examples_budget_t_LDADD = libtidemark.la
examples_own_resource_LDADD = libtidemark.la
examples_share_SOURCES = examples/cuda-calls.h examples/share.c
examples_share_LDADD = libtidemark.la -ldl
examples_streams_SOURCES = examples/cuda-calls.h examples/streams.c
examples_streams_LDADD = libtidemark.la -ldl
examples_wrap_LDADD = libtidemark.la
dist_check_SCRIPTS += examples/examples-t.sh
examplesdir = $(docdir)/examples
dist_examples_DATA = examples/budget-t.c examples/cuda-calls.h examples/own-resource.c examples/share.c \
	examples/streams.c examples/wrap.c
TESTS += examples/budget-t examples/examples-t.sh

EXTRA_DIST += examples/demo
CLEANFILES += demo.db demo.html

if COMMAND
demo: all
	@$(SHELL) $(top_srcdir)/examples/demo ./tidemark$(EXEEXT) $(top_srcdir)/tests/data/gpt_train.csv.gz demo.db

# The README's picture: the report of a training, in headless Chromium.
picture: all
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	gzip -dc $(top_srcdir)/tests/data/torch_gpt2_tags.db.gz >"$$folder/train.db" && \
	./tidemark$(EXEEXT) report "$$folder/train.db" -o "$$folder/train.html" && \
	python3 -B $(top_srcdir)/tests/report-page.py shot "$$folder/train.html" $(top_srcdir)/doc/report.png 1440 1190 '#v=1&x=events'
.PHONY: picture
else
demo:
	@echo 'make demo needs the command: configure without --disable-command'; exit 1
endif
.PHONY: demo
