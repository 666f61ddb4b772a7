# Small programs that make check builds and runs.
check_PROGRAMS += examples/budget-t examples/own-resource examples/wrap
examples_budget_t_LDADD = libtidemark.la
examples_own_resource_LDADD = libtidemark.la
examples_wrap_LDADD = libtidemark.la
dist_check_SCRIPTS += examples/examples-t.sh
TESTS += examples/budget-t examples/examples-t.sh
