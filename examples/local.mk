# Small programs that make check builds and runs.
check_PROGRAMS += examples/budget-t examples/own-resource examples/wrap
examples_budget_t_LDADD = libtidemark.la
examples_own_resource_LDADD = libtidemark.la
examples_wrap_LDADD = libtidemark.la
dist_check_SCRIPTS += examples/examples-t.sh
TESTS += examples/budget-t examples/examples-t.sh

EXTRA_DIST += examples/demo
CLEANFILES += demo.db

if COMMAND
demo: all
	@$(SHELL) $(top_srcdir)/examples/demo ./tidemark$(EXEEXT) $(top_srcdir)/tests/data/gpt_train.csv.gz demo.db
else
demo:
	@echo 'make demo needs the command: configure without --disable-command'; exit 1
endif
.PHONY: demo
